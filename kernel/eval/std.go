package eval

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// std gives a function of the standard library. Here are those that have no state, and do the same wherever they are
// called from.
func (w World) std(name string) reflect.Value {
	switch name {
	case "fmt.Print":
		return reflect.ValueOf(func(a ...any) (int, error) { return fmt.Fprint(w.Stdout, a...) })
	case "fmt.Println":
		return reflect.ValueOf(func(a ...any) (int, error) { return fmt.Fprintln(w.Stdout, a...) })
	case "fmt.Printf":
		return reflect.ValueOf(func(format string, a ...any) (int, error) { return fmt.Fprintf(w.Stdout, format, a...) })
	}
	return reflect.ValueOf(functions[name])
}

var functions = map[string]any{
	"fmt.Sprint": fmt.Sprint, "fmt.Sprintf": fmt.Sprintf, "fmt.Sprintln": fmt.Sprintln,

	"strings.Contains": strings.Contains, "strings.Count": strings.Count, "strings.EqualFold": strings.EqualFold,
	"strings.Fields": strings.Fields, "strings.HasPrefix": strings.HasPrefix, "strings.HasSuffix": strings.HasSuffix,
	"strings.Index": strings.Index, "strings.Join": strings.Join, "strings.LastIndex": strings.LastIndex,
	"strings.Repeat": strings.Repeat, "strings.Replace": strings.Replace, "strings.ReplaceAll": strings.ReplaceAll,
	"strings.Split": strings.Split, "strings.ToLower": strings.ToLower, "strings.ToUpper": strings.ToUpper,
	"strings.Trim": strings.Trim, "strings.TrimPrefix": strings.TrimPrefix, "strings.TrimSpace": strings.TrimSpace,
	"strings.TrimSuffix": strings.TrimSuffix,

	"strconv.Atoi": strconv.Atoi, "strconv.FormatInt": strconv.FormatInt, "strconv.Itoa": strconv.Itoa,
	"strconv.ParseBool": strconv.ParseBool, "strconv.ParseFloat": strconv.ParseFloat, "strconv.ParseInt": strconv.ParseInt,
	"strconv.Quote": strconv.Quote, "strconv.Unquote": strconv.Unquote,

	"math.Abs": math.Abs, "math.Ceil": math.Ceil, "math.Floor": math.Floor, "math.Inf": math.Inf, "math.IsNaN": math.IsNaN,
	"math.Max": math.Max, "math.Min": math.Min, "math.Round": math.Round, "math.Sqrt": math.Sqrt, "math.Trunc": math.Trunc,
}
