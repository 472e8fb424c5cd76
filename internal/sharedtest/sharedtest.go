// Package sharedtest finds the folder of large real inputs that some tests read.
// It does not copy or download anything.
package sharedtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir returns the folder of shared inputs: $ROOFLAB_SHARED, else ../shared beside the checkout.
// Without it the test is skipped; under CI=true it fails, because CI must run these tests.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ROOFLAB_SHARED")
	if dir == "" {
		dir = filepath.Join(Root(), "..", "shared")
	}
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return dir
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("shared inputs not found at %s; CI must have them (or set ROOFLAB_SHARED)", dir)
	}
	t.Skipf("shared inputs not found at %s (set ROOFLAB_SHARED to run this test)", dir)
	return ""
}

// Root returns the root folder of the checkout that holds this source file.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
