package compiled

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package that cannot be initialised must not take the values of the other cells with it.
func TestPackagesWhoseInitialisationFails(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"config/config.go": "package config\n\nvar Values = map[string]int{}\n\nfunc init() {\n\tvar limits map[string]int\n\tlimits[\"x\"] = 1\n}\n",
		"user/user.go":     "package user\n\nimport \"example.com/m/config\"\n\nfunc N() int { return len(config.Values) }\n",
		"fine/fine.go":     "package fine\n\nimport \"strings\"\n\nvar Word = strings.ToUpper(\"fine\")\n",
		"slow/slow.go":     "package slow\n\nimport \"time\"\n\nvar N = 1\n\nfunc init() { time.Sleep(20 * time.Second) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := newHarness(t, Options{Dir: dir})
	h.want("kept := 41", "")
	o := h.fails("import \"example.com/m/config\"\nlen(config.Values)", "package example.com/m/config cannot be used before a restart (%restart): its initialisation panicked: assignment to entry in nil map")
	if !strings.Contains(o.said(), "config.go:7)") {
		t.Errorf("it is not said where: %s", o.said())
	}
	h.want("kept + 1", "=42") // the worker lives
	h.fails("import \"example.com/m/user\"\nuser.N()", "package example.com/m/config cannot be used before a restart")
	h.want("import \"example.com/m/fine\"\nfine.Word", "=FINE")
	h.during(h.Interrupt)
	h.fails("import \"example.com/m/slow\"\nslow.N", "interrupted")
	h.want("kept", "=41")
	if err := os.WriteFile(filepath.Join(dir, "config/config.go"), []byte("package config\n\nvar Values = map[string]int{\"a\": 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.want("%restart\nimport \"example.com/m/user\"\nuser.N()", "=1")
}
