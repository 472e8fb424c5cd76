package session

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// This file makes loops end when the cell is interrupted. A loop polls in each round, or, if its rounds are short, it
// becomes two: the inner one has the user's body and no call, so that its values stay in registers, and ends after a
// chunk of rounds; the outer one polls and goes on. It polls first, not last: what the inner one changes in each round
// would be stored in each round, too, if it had to outlive a call. A break of the user's leaves both. No round, no condition with an
// effect and no copy of a variable that somebody could tell from another is lost or added: nobody has the address of
// the variables of such a loop.

// twin is a loop that becomes two.
type twin struct {
	c     *checker
	most  int64             // rounds of a chunk
	outer string            // label of the outer loop
	inner string            // what stands before the inner loop: the user's label, if it is continued
	used  bool              // the outer label is needed
	stay  []*ast.BranchStmt // breaks of the loop
}

// twin prepares a loop for becoming two; nil if it is to poll in each round.
func (c *checker) twin(loop ast.Stmt, body *ast.BlockStmt) *twin {
	t := &twin{c: c, most: c.chunk(loop)}
	if t.most == 0 {
		return nil
	}
	label := c.labels[loop]
	if label != nil && c.jumpedTo(label) {
		return nil
	}
	c.twins++
	t.outer = fmt.Sprintf("%sloop%d", own, c.twins)
	t.branches(body, label, true)
	if label != nil {
		c.replace(label.Pos(), label.Colon+1, "")
	}
	for _, b := range t.stay {
		c.replace(b.Pos(), b.End(), "break "+t.outer)
	}
	t.used = len(t.stay) > 0
	return t
}

// jumpedTo tells whether a goto jumps to a label.
func (c *checker) jumpedTo(label *ast.LabeledStmt) (yes bool) {
	ast.Inspect(c.file, func(n ast.Node) bool {
		b, ok := n.(*ast.BranchStmt)
		yes = yes || ok && b.Tok == token.GOTO && c.info.Uses[b.Label] == c.info.Defs[label.Label]
		return !yes
	})
	return yes
}

// branches finds what leaves or continues the loop: with its label, or without one and not within another statement
// that this would be meant for.
func (t *twin) branches(n ast.Node, label *ast.LabeledStmt, direct bool) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt:
			if m != n && direct {
				t.branches(m, label, false)
				return false
			}
		case *ast.BranchStmt:
			mine := m.Label == nil && direct
			if m.Label != nil && label != nil {
				mine = t.c.info.Uses[m.Label] == t.c.info.Defs[label.Label]
			}
			switch {
			case mine && m.Tok == token.BREAK:
				t.stay = append(t.stay, m)
			case mine && m.Tok == token.CONTINUE && m.Label != nil:
				t.inner = m.Label.Name + ": "
			}
		}
		return true
	})
}

// begin is what stands before the outer loop.
func (t *twin) begin() string {
	if t.used {
		return t.outer + ": "
	}
	return ""
}

// forStmt rewrites a loop with a condition, or with none.
func (c *checker) forStmt(n *ast.ForStmt) func() {
	s := c.steps(n)
	if s.ends(c.chunk(n)) {
		return nil
	}
	t := c.twin(n, n.Body)
	switch {
	case t == nil:
		c.poll(n.Body)
		return nil
	case s == nil:
		return t.counted(n)
	case s.by != nil:
		return t.strided(n, s)
	default:
		return t.bounded(n, s)
	}
}

// counted: any loop counts its rounds.
//
//	loop: for INIT; ; { rt.Poll(); n := most + 1; for ; COND; POST { if n--; n == 0 { continue loop }; BODY }; break }
//
// The condition is asked again after a chunk; it has no effect. Without a condition there is no last break, because
// statements after a loop without end may be missing.
func (t *twin) counted(n *ast.ForStmt) func() {
	c, count := t.c, own+"n"
	t.used = true
	head := fmt.Sprintf("; ; { %sPoll(); %s := %d; %s", rt, count, t.most+1, t.inner)
	if n.Init == nil {
		c.insert(n.For, t.begin()+"for "+head)
	} else {
		c.insert(n.For, t.begin())
	}
	c.insert(n.Body.Lbrace+1, fmt.Sprintf("if %s--; %s == 0 { continue %s };", count, count, t.outer))
	return func() {
		if n.Init != nil {
			c.insert(n.Init.End(), head+"for ")
		}
		end := " }"
		if n.Cond != nil {
			end = "; break }"
		}
		c.insert(n.Body.Rbrace+1, end)
	}
}

// bounded: a loop with a counter of its own gets a nearer limit.
//
//	for INIT; i < N; { rt.Poll(); m := i + most; if m < i || m > N { m = N }; for ; i < m; i++ { BODY } }
//
// With i <= N the inner loop runs while i != m, where m is one more than N; that may wrap around, and so does i.
func (t *twin) bounded(n *ast.ForStmt, s *steps) func() {
	c, m := t.c, own+"m"
	c.insert(n.For, t.begin())
	return func() {
		i, limit := c.textIn(s.i.Pos(), s.i.End()), c.textIn(s.limit.Pos(), s.limit.End())
		sign, less, more, beyond, while := "+", "<", ">", "", s.op.String()
		if !s.up {
			sign, less, more = "-", ">", "<"
		}
		if s.orEqual() {
			beyond, while = "; "+m+n.Post.(*ast.IncDecStmt).Tok.String(), "!="
		}
		c.insert(n.Post.Pos(), fmt.Sprintf("{ %sPoll(); %s := %s %s %d; if %s %s %s || %s %s %s { %s = %s%s }; %sfor ; %s %s %s; ",
			rt, m, i, sign, t.most, m, less, i, m, more, limit, m, limit, beyond, t.inner, i, while, m))
		c.insert(n.Body.Rbrace+1, " }")
	}
}

// strided: the same for steps of any size; see rt.Stride.
func (t *twin) strided(n *ast.ForStmt, s *steps) func() {
	c, end, step := t.c, own+"end", own+"step"
	c.insert(n.For, t.begin())
	return func() {
		i, limit, by := c.textIn(s.i.Pos(), s.i.End()), c.textIn(s.limit.Pos(), s.limit.End()), c.textIn(s.by.Pos(), s.by.End())
		name := "Stride"
		if s.orEqual() {
			name = "StrideTo"
		}
		c.cover(s.by.Pos(), s.by.End(), step)
		c.insert(n.Post.Pos(), fmt.Sprintf("{ %sPoll(); %s, %s := %s%s(%s, %s, %s, %d); %sfor ; %s != %s; ", rt, end, step, rt, name, i, limit, by, t.most, t.inner, i, end))
		c.insert(n.Body.Rbrace+1, fmt.Sprintf("; %s += %s - %s }", i, by, step))
	}
}

// rangeStmt: a loop over a channel becomes a loop around rt.Recv2; one over a slice or an integer becomes two if its
// rounds are short.
func (c *checker) rangeStmt(n *ast.RangeStmt) func() {
	if c.isChan(n.X) {
		return c.rangeChan(n)
	}
	most := c.chunk(n)
	count, constant := c.number(n.X)
	if most > 0 && (c.fixed(n.X) > 0 || constant && count <= most) {
		return nil
	}
	plainInt := types.Identical(types.Default(c.info.TypeOf(n.X)), types.Typ[types.Int])
	if c.info.Types[n.X].Value != nil && !(constant && plainInt) {
		most = 0
	}
	if most > 0 {
		if t := c.twin(n, n.Body); t != nil {
			return t.ranged(n)
		}
	}
	c.poll(n.Body)
	return nil
}

// ranged: a loop over a part of the slice, or over a part of the numbers, stands within one over the parts.
//
//	for s, from := X, 0; from < rt.Len(s); { rt.Poll(); part := rt.Part(s, from, most); for k, v := range part { k += from; BODY }; from += most }
//	for end, from := rt.Span(X); from < end; { rt.Poll(); part := rt.Next(from, end, most); for k := range part { k += from; BODY }; from += part }
func (t *twin) ranged(n *ast.RangeStmt) func() {
	c := t.c
	all, from, part := own+"all", own+"from", own+"part"
	c.insert(n.For, t.begin())
	return func() {
		before, after := "", fmt.Sprintf(", 0; %s < %sLen(%s); { %sPoll(); %s := %sPart(%s, %s, %d)", from, rt, all, rt, part, rt, all, from, t.most)
		advance := fmt.Sprint(t.most)
		if !c.isSlice(n.X) {
			before, after = rt+"Span(", fmt.Sprintf("); %s < %s; { %sPoll(); %s := %sNext(%s, %s, %d)", from, all, rt, part, rt, from, all, t.most)
			advance = part
		}
		inner, key := "range "+part+" {", ""
		if n.Key != nil {
			inner = c.textIn(n.Key.Pos(), n.TokPos) + ":= " + inner
			if id, ok := n.Key.(*ast.Ident); ok && id.Name != "_" {
				key = fmt.Sprintf(" %s += %s;", c.textIn(id.Pos(), id.End()), from)
			}
		}
		if v := c.info.Types[n.X].Value; v != nil {
			c.cover(n.X.Pos(), n.X.End(), constant.ToInt(v).ExactString())
		}
		lines := strings.Repeat("\n", strings.Count(c.text[c.tfile.Offset(n.For):c.tfile.Offset(n.Range)], "\n"))
		c.cover(n.For+3, n.Range+5, fmt.Sprintf(" %s, %s := %s%s", all, from, lines, before))
		c.replace(n.Body.Lbrace, n.Body.Lbrace+1, fmt.Sprintf("%s; %sfor %s%s", after, t.inner, strings.ReplaceAll(inner, "\n", " "), key))
		c.insert(n.Body.Rbrace+1, fmt.Sprintf("; %s += %s }", from, advance))
	}
}

// steps is how a loop counts: for ...; i < limit; i++, or with i += by. Nothing else in the loop changes i, the limit
// and the step.
type steps struct {
	i         *ast.Ident
	op        token.Token
	limit, by ast.Expr
	up        bool
	rounds    int64 // if they are known
}

func (s *steps) orEqual() bool { return s.op == token.LEQ || s.op == token.GEQ }

// ends tells whether the loop is known to end within a chunk.
func (s *steps) ends(chunk int64) bool { return s != nil && s.rounds > 0 && s.rounds <= chunk }

// steps finds out how a loop counts; nil if it does not, or if something outside could change it.
func (c *checker) steps(n *ast.ForStmt) *steps {
	cond, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || c.chunk(n) == 0 {
		return nil
	}
	s := &steps{op: cond.Op, limit: cond.Y, up: cond.Op == token.LSS || cond.Op == token.LEQ}
	if s.i, ok = cond.X.(*ast.Ident); !ok || !s.up && cond.Op != token.GTR && cond.Op != token.GEQ {
		return nil
	}
	var moved ast.Expr
	switch p := n.Post.(type) {
	case *ast.IncDecStmt:
		if moved = p.X; s.up != (p.Tok == token.INC) {
			return nil
		}
	case *ast.AssignStmt:
		if p.Tok != token.ADD_ASSIGN || !s.up {
			return nil
		}
		moved, s.by = p.Lhs[0], p.Rhs[0]
	}
	i := c.info.Uses[s.i]
	if id, ok := moved.(*ast.Ident); !ok || c.info.Uses[id] != i || !c.counts(s.i) {
		return nil
	}
	changed := c.assigned(n.Body)
	if !c.steady(s.i, changed) {
		return nil
	}
	changed[i] = true
	if !c.steady(s.limit, changed) || s.by != nil && !c.steady(s.by, changed) {
		return nil
	}
	s.rounds = c.roundsOf(n, s)
	return s
}

// roundsOf is the number of rounds of a loop from a constant to a constant; 0 if that is not known.
func (c *checker) roundsOf(n *ast.ForStmt, s *steps) int64 {
	init, ok := n.Init.(*ast.AssignStmt)
	if !ok || len(init.Lhs) != 1 || s.by != nil || !s.up || c.info.Defs[ident(init.Lhs[0])] != c.info.Uses[s.i] {
		return 0
	}
	from, ok := c.number(init.Rhs[0])
	to, known := c.number(s.limit)
	if !ok || !known || s.orEqual() || from < 0 || to < from {
		return 0
	}
	return to - from
}

func ident(x ast.Expr) *ast.Ident {
	id, _ := x.(*ast.Ident)
	return id
}

// assigned are the variables that are assigned to within a node.
func (c *checker) assigned(n ast.Node) map[types.Object]bool {
	changed := map[types.Object]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		var to []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			to = n.Lhs
		case *ast.IncDecStmt:
			to = []ast.Expr{n.X}
		}
		for _, x := range to {
			if id := ident(ast.Unparen(x)); id != nil {
				changed[c.info.Uses[id]] = true
			}
		}
		return true
	})
	return changed
}

// steady tells whether an expression has the same value in all rounds of a loop that changes some variables: it is made
// of constants and of variables that nothing but the loop could change.
func (c *checker) steady(x ast.Expr, changed map[types.Object]bool) bool {
	if c.info.Types[x].Value != nil {
		return true
	}
	switch x := x.(type) {
	case *ast.Ident:
		v, ok := c.info.Uses[x].(*types.Var)
		return ok && !changed[v] && !c.known(v) && !c.topLevel(v) && v.Parent() != nil && v.Parent() != v.Pkg().Scope() && !c.isShared(v)
	case *ast.ParenExpr:
		return c.steady(x.X, changed)
	case *ast.BinaryExpr:
		return c.steady(x.X, changed) && c.steady(x.Y, changed)
	case *ast.CallExpr: // len, cap and conversions: nothing else is short and has one argument that is steady
		f := ident(ast.Unparen(x.Fun))
		b, _ := c.info.Uses[f].(*types.Builtin)
		return (c.info.Types[x.Fun].IsType() || b != nil && (b.Name() == "len" || b.Name() == "cap")) && c.steady(x.Args[0], changed)
	}
	return false
}

// isShared tells whether a local variable can be changed by others than the statements that name it: its address has
// been taken, or a function literal names it.
func (c *checker) isShared(v *types.Var) bool {
	if c.shared == nil {
		c.shared = map[types.Object]bool{}
		ast.Inspect(c.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					c.shared[c.info.Uses[root(n.X)]] = true
				}
			case *ast.SelectorExpr:
				if s := c.info.Selections[n]; s != nil && s.Kind() == types.MethodVal {
					c.shared[c.info.Uses[root(n.X)]] = true
				}
			case *ast.FuncLit:
				ast.Inspect(n.Body, func(m ast.Node) bool {
					if id, ok := m.(*ast.Ident); ok {
						if o := c.info.Uses[id]; o != nil && (o.Pos() < n.Pos() || n.End() <= o.Pos()) {
							c.shared[o] = true
						}
					}
					return true
				})
			}
			return true
		})
	}
	return c.shared[v]
}

// root is the variable whose part an operand is.
func root(x ast.Expr) *ast.Ident {
	for {
		switch y := x.(type) {
		case *ast.ParenExpr:
			x = y.X
		case *ast.SelectorExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		default:
			return ident(x)
		}
	}
}
