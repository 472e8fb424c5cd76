package svg

import (
	"fmt"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Text sizes in pixels.
const (
	textSize  = 12.5
	valueSize = 14
)

// wider leaves a little room: the Go fonts are as wide as Arial, and a page may use another font.
const wider = 1.03

// fonts are parsed once; a face is not safe for use by several goroutines, so that measuring takes the lock.
var fonts = struct {
	sync.Mutex
	faces map[bool]font.Face
	wide  map[string]float64
}{faces: map[bool]font.Face{}, wide: map[string]float64{}}

const unit = 100 // size at which widths are measured

// width estimates how wide a text is drawn, in pixels.
func width(s string, size float64, bold bool) float64 {
	fonts.Lock()
	defer fonts.Unlock()
	f, ok := fonts.faces[bold]
	if !ok {
		ttf := goregular.TTF
		if bold {
			ttf = gobold.TTF
		}
		f = face(ttf)
		fonts.faces[bold] = f
	}
	var sum fixed.Int26_6
	for _, r := range s {
		a, ok := f.GlyphAdvance(r)
		switch {
		case r == '\u202f' || r == '\u2009':
			a = fixed.I(unit / 5)
		case !ok && r > 0x2e7f: // wide scripts that the Go fonts lack
			a = fixed.I(unit)
		case !ok:
			a = fixed.I(unit * 6 / 10)
		}
		sum += a
	}
	return float64(sum) / 64 / unit * size * wider
}

func face(ttf []byte) font.Face {
	f, err := opentype.Parse(ttf)
	if err == nil {
		var out font.Face
		if out, err = opentype.NewFace(f, &opentype.FaceOptions{Size: unit, DPI: 72}); err == nil {
			return out
		}
	}
	panic(fmt.Sprintf("the Go fonts are part of this program: %v", err)) // constant input
}
