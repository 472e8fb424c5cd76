package svg

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"regexp"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
)

// NotebookWidth is the width of a picture in a notebook, in pixels.
const NotebookWidth = 660

// Enrich adds text/html and image/svg+xml to an output that holds a chart; other outputs stay as they are.
// The html is an image without script, which notebook readers show even for a notebook that they do not trust.
// When the chart cannot be drawn, the html says why, the table stays, and the error is returned for the log.
func Enrich(bundle map[string]interface{}) error {
	typed, ok := bundle[data.MIMEChart]
	if !ok {
		return nil
	}
	raw, err := json.Marshal(typed)
	if err != nil {
		return fmt.Errorf("read chart: %w", err)
	}
	c, err := charts.Parse(raw)
	if err != nil {
		return explain(bundle, "", err)
	}
	pic, err := Render(c, Options{Width: NotebookWidth, Literal: true})
	if err != nil {
		return explain(bundle, c.Title, err)
	}
	w, h := size(pic)
	caption := ""
	if c.Caption != "" {
		caption = "<br>" + html.EscapeString(c.Caption)
	}
	bundle["image/svg+xml"] = string(pic)
	bundle["text/html"] = fmt.Sprintf(`<figure><img alt="%s" width="%s" height="%s" src="data:image/svg+xml;base64,%s"><figcaption><b>%s</b>%s</figcaption></figure>`,
		html.EscapeString(c.Title+". "+c.Desc), w, h, base64.StdEncoding.EncodeToString(pic), html.EscapeString(c.Title), caption)
	return nil
}

// explain says in the output why there is no picture; the table is shown below it.
func explain(bundle map[string]interface{}, title string, err error) error {
	text, _ := bundle["text/plain"].(string)
	head := ""
	if title != "" {
		head = "<b>" + html.EscapeString(title) + "</b><br>"
	}
	bundle["text/html"] = "<p>" + head + "No picture: " + html.EscapeString(err.Error()) + ". The data follow.</p><pre>" + html.EscapeString(text) + "</pre>"
	return err
}

// size reads width and height from the first tag of a drawing of ours.
func size(pic []byte) (w, h string) {
	m := sizePattern.FindSubmatch(pic)
	if m == nil {
		return "", ""
	}
	return string(m[1]), string(m[2])
}

var sizePattern = regexp.MustCompile(`^<svg [^>]*? width="([0-9.]+)" height="([0-9.]+)"`)
