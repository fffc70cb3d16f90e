package kvsteer

// ForgetEverything makes the index forget what it knows of all workers, behind the
// backs of those who told it.
func (r *Router) ForgetEverything() {
	for _, h := range *r.residency.homes.Load() {
		for _, o := range h.owners {
			r.index.Clear(o)
		}
	}
}
