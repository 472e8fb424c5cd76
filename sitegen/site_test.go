package sitegen

import (
	"flag"
	"os"
	"testing"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	keep   = flag.String("keep", "", "folder that gets the campaign and the site of the fixture, to look at")
)

func build(t testing.TB, in string) (string, Result) {
	t.Helper()
	out := t.TempDir()
	r, err := Build(t.Context(), Options{In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

func TestKeep(t *testing.T) {
	if *keep == "" {
		t.Skip("only with -keep DIR")
	}
	in := writeCampaign(t)
	if err := os.CopyFS(*keep+"/campaign", os.DirFS(in)); err != nil {
		t.Fatal(err)
	}
	r, err := Build(t.Context(), Options{In: in, Out: *keep + "/site"})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Warnings {
		t.Log(w)
	}
}
