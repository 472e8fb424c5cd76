package session

import (
	"go/types"
	"strings"
)

// reuse takes out of a cell what it declares exactly as an earlier cell did: the same text, and every name in it means
// what it meant then. Such a type stays the same type, so that a notebook can be run again without making the
// variables of the first run useless. Constants are reused because types depend on them, functions only if an unchanged
// method needs them: stack traces shall show the positions of the latest run where they can.
func (s *Session) reuse(chunks []*chunk, imports map[string]entry) (rest []*chunk, moved []Move) {
	same := s.candidates(chunks)
	if len(same) == 0 {
		return chunks, nil
	}
	made := map[string]*chunk{} // name -> the chunk of this cell that declares it
	methods := map[string]bool{}
	for _, k := range chunks {
		for _, name := range k.defines {
			if old := made[name]; old != nil && old.kind != kStmt && k.kind != kStmt { // leave it to the type checker
				return chunks, nil
			}
			made[name] = k
		}
		if k.kind == kMethod {
			methods[k.recv+"."+k.name] = true
		}
	}
	now := func(name string) entry {
		if k := made[name]; k != nil && same[k] == nil {
			return entry{importPath: "declared here"}
		}
		return s.resolve(name, imports)
	}
	for changed := true; changed; {
		changed = false
		for k, d := range same {
			if !d.unchanged(now) || k.kind == kType && s.lostMethod(d, methods) {
				delete(same, k)
				changed = true
			}
		}
	}
	s.dropFuncs(same)
	for _, k := range chunks {
		d := same[k]
		if d == nil {
			rest = append(rest, k)
			continue
		}
		if k.kind == kMethod || k.kind == kFunc {
			moved = append(moved, Move{k.cell, k.line, strings.Count(k.text, "\n") + 1, d.c.cell, d.c.line})
		}
	}
	return rest, moved
}

// candidates are the chunks that stand word for word in an earlier cell whose declaration is still in force.
func (s *Session) candidates(chunks []*chunk) map[*chunk]*decl {
	same := map[*chunk]*decl{}
	for _, k := range chunks {
		switch k.kind {
		case kFunc:
			if k.name == "init" || k.name == "_" {
				continue
			}
		case kType, kConst, kMethod:
		default:
			continue
		}
		for _, d := range s.decls {
			if d.c.kind == k.kind && d.c.text == k.text && d.c.pragma == k.pragma && s.inForce(d) {
				same[k] = d
			}
		}
	}
	return same
}

// inForce tells whether all names that a declaration made still mean what it made.
func (s *Session) inForce(d *decl) bool {
	for _, o := range d.objs {
		if s.env[o.Name()].obj != o {
			return false
		}
	}
	return true
}

// resolve tells what a name of an earlier cell, an import or the universe means in a new cell.
func (s *Session) resolve(name string, imports map[string]entry) entry {
	if e, ok := imports[name]; ok {
		return e
	}
	if e, ok := s.env[name]; ok {
		return e
	}
	return entry{obj: types.Universe.Lookup(name)}
}

func (d *decl) unchanged(now func(string) entry) bool {
	for name, then := range d.names {
		if now(name) != then {
			return false
		}
	}
	return true
}

// lostMethod tells whether the user has taken a method out of the cell that declares the type of d.
func (s *Session) lostMethod(d *decl, have map[string]bool) bool {
	for _, m := range s.decls {
		if m.c.kind != kMethod || m.c.cell != d.c.cell || have[m.c.recv+"."+m.c.name] {
			continue
		}
		for _, o := range d.objs {
			if m.uses[o] && o.Name() == m.c.recv {
				return true
			}
		}
	}
	return false
}

// dropFuncs leaves those functions that unchanged methods need.
func (s *Session) dropFuncs(same map[*chunk]*decl) {
	need := map[*decl]bool{}
	for k, d := range same {
		need[d] = k.kind == kMethod
	}
	for changed := true; changed; {
		changed = false
		for user := range need {
			if !need[user] || user.c.kind != kMethod && user.c.kind != kFunc {
				continue
			}
			for d, yes := range need {
				if yes || d.c.kind != kFunc {
					continue
				}
				for _, o := range d.objs {
					if user.uses[o] {
						need[d], changed = true, true
					}
				}
			}
		}
	}
	for k, d := range same {
		if k.kind == kFunc && !need[d] {
			delete(same, k)
		}
	}
}
