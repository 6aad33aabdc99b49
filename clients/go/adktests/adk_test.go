package adktests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sessiond/sessiond/clients/go/internal/testserver"
)

const (
	adk = "google.golang.org/adk/v2"
	// constructor is what the tests of the ADK make their session services with.
	constructor = "func InMemoryService() Service {"
	// hooked calls the service of this project in its place.
	hooked = "var Hook func() Service\n\nfunc InMemoryService() Service { return Hook() }\n\nfunc inMemory() Service {"
	// serversVariable names the socket that gives a test a server.
	serversVariable = "ADKTESTS_SERVERS"
)

// hook goes beside the tests of a package. Each service has an empty server of its own, which ends with the process.
const hook = `package %s_test

import (
	"bufio"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/adk/v2/session"

	sessiond "github.com/sessiond/sessiond/clients/go"
)

// conns keep the servers alive: a connection that nothing refers to is closed.
var conns struct {
	sync.Mutex
	open []net.Conn
}

func init() {
	session.Hook = func() session.Service {
		conn, err := net.Dial("unix", os.Getenv("` + serversVariable + `"))
		if err != nil {
			panic(err)
		}
		conns.Lock()
		conns.open = append(conns.open, conn)
		conns.Unlock()
		address, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			panic(err)
		}
		return sessiond.MustNew(strings.TrimSpace(address), sessiond.WithTimeout(time.Minute))
	}
}
`

// TestADK runs every test of the ADK whose package makes a session service, except those in excluded and racing. The sources come
// from the module cache, and are compiled with a constructor that makes our service.
func TestADK(t *testing.T) {
	module := copyModule(t)
	packages := hookInto(t, module)
	work := t.TempDir()
	for from, to := range map[string]string{"../go.mod": "test.mod", "../go.sum": "test.sum"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == "test.mod" {
			content = fmt.Appendf(content, "\nreplace %s => %s\n", adk, module)
		}
		if err := os.WriteFile(filepath.Join(work, to), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	arguments := append([]string{
		"test", "-json", "-race", "-count=1", "-timeout=5m", "-mod=mod", "-modfile=" + filepath.Join(work, "test.mod"),
	}, packages...)
	command := exec.Command("go", arguments...)
	command.Dir = ".."
	command.Env = append(os.Environ(), serversVariable+"="+serveServers(t, work))
	var problems bytes.Buffer
	command.Stderr = &problems
	output, runErr := command.Output()

	passed, failed, logs := results(t, output)
	if len(passed) == 0 {
		t.Fatalf("no test has passed, %v: %s\n%s", runErr, &problems, output)
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if excluded[name] == "" && racing[name] == "" {
			t.Errorf("%s:\n%s", name, logs[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		if !failed[name] {
			t.Errorf("%s is excluded and has not failed", name)
		}
	}
	t.Logf("%d tests in %d packages have passed, %d are excluded", len(passed), len(packages), len(excluded)+len(racing))
}

// copyModule copies the ADK out of the module cache, where files cannot be changed.
func copyModule(t *testing.T) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", adk)
	list.Dir = ".."
	found, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "adk")
	if err := os.CopyFS(module, os.DirFS(strings.TrimSpace(string(found)))); err != nil {
		t.Fatal(err)
	}
	return module
}

// hookInto changes the constructor, and returns the packages whose tests call it.
func hookInto(t *testing.T, module string) []string {
	t.Helper()
	service := filepath.Join(module, "session", "service.go")
	content, err := os.ReadFile(service)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(content, []byte(constructor)) != 1 {
		t.Fatalf("%s has no %q", service, constructor)
	}
	replace(t, service, bytes.Replace(content, []byte(constructor), []byte(hooked), 1))
	found := map[string]bool{}
	err = filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("session.InMemoryService()")) {
			found[filepath.Dir(path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	packages := make([]string, 0, len(found))
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		inside, err := filepath.Rel(module, folder)
		if err != nil {
			t.Fatal(err)
		}
		path := adk + "/" + filepath.ToSlash(inside)
		name := exec.Command("go", "list", "-f", "{{.Name}}", path)
		name.Dir = ".."
		called, err := name.Output()
		if err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(folder, "hook_sessiond_test.go"), fmt.Appendf(nil, hook, strings.TrimSpace(string(called))))
		packages = append(packages, path)
	}
	return packages
}

// replace writes a file of the copy, whose files and folders are as read-only as in the cache.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	_ = os.Remove(path)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveServers returns a socket that answers a connection with the address of a new server, which ends with the connection.
func serveServers(t *testing.T, work string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(work, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				server := testserver.Start(t, "memory:")
				defer server.Kill()
				fmt.Fprintln(conn, server.Address)
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// results returns the tests that have passed and failed, without those whose subtests tell it, and what they have printed.
func results(t *testing.T, output []byte) (passed, failed map[string]bool, logs map[string]string) {
	t.Helper()
	passed, failed, logs = map[string]bool{}, map[string]bool{}, map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var line struct{ Action, Package, Test, Output string }
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(line.Package, adk+"/")
		if line.Test != "" {
			name += "." + line.Test
		}
		switch line.Action {
		case "output", "build-output":
			logs[name] += line.Output
		case "pass":
			passed[name] = line.Test != ""
		case "fail", "build-fail":
			failed[name] = true
		}
	}
	maps.DeleteFunc(passed, func(_ string, isTest bool) bool { return !isTest })
	// A package or a test fails with each of its tests.
	maps.DeleteFunc(failed, func(name string, _ bool) bool {
		for other := range failed {
			if strings.HasPrefix(other, name+"/") && strings.Contains(name, ".") || strings.HasPrefix(other, name+".") {
				return true
			}
		}
		return false
	})
	return passed, failed, logs
}
