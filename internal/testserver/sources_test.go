package testserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// archive makes an npm archive and returns its path and checksum.
func archive(t *testing.T, files map[string]string) (name, sum string) {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	out := tar.NewWriter(zip)
	for name, content := range files {
		mode := int64(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), "package.tgz")
	if err := os.WriteFile(name, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512(packed.Bytes())
	return name, base64.StdEncoding.EncodeToString(digest[:])
}

func TestUnpackKeepsModesAndMakesLinks(t *testing.T) {
	name, sum := archive(t, map[string]string{
		"package/native/bin/postgres":      "program",
		"package/native/lib/libpq.so.5.18": "library",
		"package/native/pg-symlinks.json":  `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so"}]`,
	})
	into := t.TempDir()
	if err := unpack(name, into, sum); err != nil {
		t.Fatal(err)
	}
	native := filepath.Join(into, "package", "native")
	for file, want := range map[string]os.FileMode{"bin": 0o755, "bin/postgres": 0o755, "lib/libpq.so.5.18": 0o644} {
		info, err := os.Stat(filepath.Join(native, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, expected %v", file, info.Mode().Perm(), want)
		}
	}
	if content, err := os.ReadFile(filepath.Join(native, "lib", "libpq.so")); string(content) != "library" {
		t.Errorf("the link leads to %q (%v), expected the library", content, err)
	}
}

func TestUnpackRefusesAnArchiveThatIsNotTheOneExpected(t *testing.T) {
	name, sum := archive(t, map[string]string{"package/native/pg-symlinks.json": "[]"})
	into := t.TempDir()
	if err := unpack(name, into, "x"+sum); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("error is %v, expected one about the checksum", err)
	}
	if entries, err := os.ReadDir(into); len(entries) != 0 {
		t.Errorf("files were written before the checksum was right: %v (%v)", entries, err)
	}
}

func TestUnpackStaysInItsFolder(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"file outside": {"../evil": "x"},
		"link outside": {"package/native/pg-symlinks.json": `[{"source":"native/a","target":"../../evil"}]`},
	} {
		t.Run(what, func(t *testing.T) {
			name, sum := archive(t, files)
			into := filepath.Join(t.TempDir(), "into")
			if err := os.Mkdir(into, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unpack(name, into, sum); err == nil {
				t.Error("an archive that reaches outside its folder was unpacked")
			}
			if _, err := os.Lstat(filepath.Join(into, "..", "evil")); err == nil {
				t.Error("something was written outside the folder")
			}
		})
	}
}

func TestInstalledPostgreSQLAreSupportedAndSorted(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) 17.4 (Some Packager 17.4-1)'\n",
		"initdb":   "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	found := installedPostgreSQL()
	if !slices.ContainsFunc(found, func(in installation) bool { return in.bin == bin && in.version == "17.4" }) {
		t.Errorf("found %v, expected 17.4 in %s among them", found, bin)
	}
	for i, in := range found {
		if in.major() < oldestPostgreSQL || in.major() > newestPostgreSQL {
			t.Errorf("found unsupported %v", in)
		}
		if i > 0 && found[i-1].major() >= in.major() {
			t.Errorf("found %v, expected one per major and the oldest first", found)
		}
	}
}

// A container engine is rarely there where this runs, so a stand-in takes its
// place: it understands the commands that are sent and leads to a real server.
func TestContainerIsStartedAndRemoved(t *testing.T) {
	server := PostgreSQL(t)[0]
	target, err := url.Parse(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	bin, state := t.TempDir(), t.TempDir()
	calls := filepath.Join(state, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%q\nexec %q \"$@\"\n", calls, os.Args[0])
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(envPlay, "docker")
	t.Setenv(envPlay+"_TARGET", target.Host)
	t.Setenv(envPlay+"_STATE", state)

	instance, err := postgreSQLWanted{oldest: 18, newest: 18}.startContainer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if instance.Version != server.Version || instance.Origin != "docker image postgres:18" {
		t.Errorf("got PostgreSQL %s from %q, expected %s from the image", instance.Version, instance.Origin, server.Version)
	}
	if err := instance.Stop(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"info\n", "pull postgres:18\n", "run --rm --name sqlfence-test-", "POSTGRES_HOST_AUTH_METHOD=trust", "-c max_prepared_transactions=20", "rm --force sqlfence-test-"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the engine was not called with %q; calls:\n%s", want, log)
		}
	}
}

// playDocker is the stand-in: `run` forwards the published port until `rm`.
func playDocker(args []string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	pidFile := func(name string) string { return filepath.Join(os.Getenv(envPlay+"_STATE"), name+".pid") }
	switch args[0] {
	case "info", "pull":
	case "run":
		name := args[slices.Index(args, "--name")+1]
		publish := args[slices.Index(args, "--publish")+1]
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		accept, err := net.Listen("tcp", publish[:strings.LastIndex(publish, ":")])
		fail(err)
		fail(os.WriteFile(pidFile(name), []byte(strconv.Itoa(os.Getpid())), 0o600))
		proxy := &Proxy{target: os.Getenv(envPlay + "_TARGET"), accept: accept, conns: map[net.Conn]bool{}, halt: make(chan struct{})}
		proxy.work.Go(proxy.serve)
		<-ended
		proxy.close()
	case "rm":
		text, err := os.ReadFile(pidFile(args[len(args)-1]))
		fail(err)
		pid, err := strconv.Atoi(string(text))
		fail(err)
		fail(syscall.Kill(pid, syscall.SIGTERM))
	default:
		fail(fmt.Errorf("unexpected command %q", args))
	}
}

func TestMajorsThatARunIsToldToTestAgainst(t *testing.T) {
	for _, c := range []struct {
		majors string
		want   []int
	}{{"13 14", []int{13, 14}}, {"16,17", []int{16, 17}}, {"all", []int{13, 14, 15, 16, 17, 18}}} {
		wanted, err := wantedPostgreSQL(c.majors)
		if err != nil {
			t.Errorf("%q: %v", c.majors, err)
		}
		var got []int
		for _, w := range wanted {
			got = append(got, w.oldest)
			if w.oldest != w.newest {
				t.Errorf("%q wants %d to %d, expected one major", c.majors, w.oldest, w.newest)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q wants %v, expected %v", c.majors, got, c.want)
		}
	}
	if wanted, err := wantedPostgreSQL(" "); err != nil || len(wanted) != len(postgreSQLRun) {
		t.Errorf("nothing named wants %v (%v), expected what a run tests against", wanted, err)
	}
	for _, majors := range []string{"12", "19", "x", "13-18"} {
		if _, err := wantedPostgreSQL(majors); err == nil {
			t.Errorf("%q is taken, expected an error", majors)
		}
	}
}
