package policy

import "strings"

// opens reports a rule that keeps requests with a tag in the house, while those of
// which nobody knows whether they have it go on to a rule that may send them out: a
// match takes unknown as absent, other than the if of an exclusion.
func (k *checker) opens(i int) {
	r := &k.s.Rules[i]
	if !r.Route.staysHere() {
		return
	}
	for j := range r.Matches {
		m := &r.Matches[j]
		if len(m.Tag) == 0 || m.OnUnknown != UnknownDefault {
			continue
		}
		for below := i + 1; below < len(k.s.Rules); below++ {
			if to := &k.s.Rules[below].Route; to.staysHere() || to.restricts(m.Tag) {
				continue
			}
			k.warn(CodeFailsOpen, item(item("spec.rules", i)+".matches", j)+".tag", "requests of which nobody knows whether they are tagged "+
				strings.Join(quoted(m.Tag), ", ")+" are not kept here, but go on to "+item("spec.rules", below)+", which may send them to providers",
				"add onUnknown: Present, or, if that is meant, onUnknown: Absent")
			break
		}
	}
}

// staysHere reports whether no provider gets a request by this route.
func (r *Route) staysHere() bool {
	if r.restricts(nil) {
		return true
	}
	for i := range r.Select {
		if r.Select[i].Type != LocalOnly {
			return false
		}
	}
	return len(r.Select) > 0
}
