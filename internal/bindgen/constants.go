package main

import (
	"go/constant"
	"go/token"
	"go/types"
	"math"
)

const lessOrEqual = token.LEQ

var maxFloat64 = constant.MakeFloat64(math.MaxFloat64)

func magnitude(v constant.Value) constant.Value {
	if constant.Sign(v) < 0 {
		return constant.UnaryOp(token.SUB, v, 0)
	}
	return v
}

// untyped writes a constant as the interpreter reads it: kind, colon, exact value.
func untyped(b *types.Basic, v constant.Value) string {
	switch b.Kind() {
	case types.UntypedBool:
		return "bool:" + v.String()
	case types.UntypedInt:
		return "int:" + v.ExactString()
	case types.UntypedRune:
		return "rune:" + v.ExactString()
	case types.UntypedFloat:
		return "float:" + v.ExactString()
	case types.UntypedComplex:
		return "complex:" + constant.Real(v).ExactString() + ":" + constant.Imag(v).ExactString()
	case types.UntypedString:
		return "string:" + constant.StringVal(v)
	}
	return ""
}
