package lease

import "time"

// SetWall makes the manager read the wall clock from wall; the monotonic one
// stays the machine's. It is to be called before the manager is used.
func (m *Manager) SetWall(wall func(time.Time) time.Time) {
	m.now = func() instant {
		now := machineNow()
		return instant{mono: now.mono, wall: wall(now.wall)}
	}
}

// Renewing reports whether the renewer's goroutine runs.
func (m *Manager) Renewing() bool {
	m.renewer.mu.Lock()
	defer m.renewer.mu.Unlock()
	return m.renewer.running
}

// Granted returns how many leases the manager knows that have not ended.
func (m *Manager) Granted() int {
	m.grants.mu.Lock()
	defer m.grants.mu.Unlock()
	n := 0
	for _, all := range m.grants.live {
		n += len(all)
	}
	return n
}
