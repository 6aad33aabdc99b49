package sessiond_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// build returns an example as a program.
func build(t *testing.T, example string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), example)
	output, err := exec.Command("go", "build", "-race", "-o", program, "./examples/"+example).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", example, err, output)
	}
	return program
}

func TestCounter(t *testing.T) {
	server, program := startServer(t, "sqlite:test.db"), build(t, "counter")
	for _, want := range []string{
		"Welcome, this is visit 1.\nWelcome, this is visit 2.\nvisits: 2, last answer: Welcome, this is visit 2.\n",
		"Welcome, this is visit 3.\nWelcome, this is visit 4.\nvisits: 4, last answer: Welcome, this is visit 4.\n",
	} {
		output, err := exec.Command(program, "-sessions", server.Address).CombinedOutput()
		if err != nil || string(output) != want {
			t.Errorf("error %v, output %q, want %q", err, output, want)
		}
	}
}

func TestTogether(t *testing.T) {
	server, program := startServer(t, "sqlite:test.db"), build(t, "together")
	service := connect(t, server)
	create(t, service, "s", nil)
	run := func(args ...string) string {
		t.Helper()
		output, err := exec.Command(program, append([]string{server.Address, app, user, "s"}, args...)...).Output()
		if err != nil {
			t.Fatalf("together %v: %v", args, err)
		}
		return string(output)
	}
	run("turn", "Oslo")
	run("increment", "3")
	run("put", "large", "9007199254740993")
	var dumped struct {
		Events []struct{ ID, Author, Text string }
		State  map[string]any
	}
	if err := json.Unmarshal([]byte(run("dump")), &dumped); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, event := range dumped.Events {
		if event.ID == "" {
			t.Error("an event has no id")
		}
		if event.Text != "" {
			lines = append(lines, event.Author+": "+event.Text)
		}
	}
	if diff := cmp.Diff([]string{"user: Oslo", "go_agent: go heard Oslo"}, lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	want := map[string]any{"go:turn": "Oslo", "user:turns": 3.0, "large": 9007199254740992.0}
	if diff := cmp.Diff(want, dumped.State); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if got := rawState(t, server, "s")["large"]; string(got) != "9007199254740993" {
		t.Errorf("large is stored as %s", got)
	}
	if err := exec.Command(program, server.Address, app, user, "missing", "dump").Run(); err == nil {
		t.Error("dump of a missing session succeeds")
	}
}

// TestStubsAreCurrent fails when proto/ has changed and generate was not run.
func TestStubsAreCurrent(t *testing.T) {
	fresh := t.TempDir()
	if output, err := exec.Command("./generate", fresh).CombinedOutput(); err != nil {
		t.Fatalf("generate: %v\n%s", err, output)
	}
	want, got := readStubs(t, fresh), readStubs(t, "sessiondv1")
	if len(want) < 9 {
		t.Errorf("generate has made %d files", len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is not current; run clients/go/generate", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not generated; run clients/go/generate", name)
	}
}

func readStubs(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".pb.go") {
			texts[filepath.Base(file)] = string(text)
		}
	}
	return texts
}
