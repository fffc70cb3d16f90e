// Package labels decides which tenants have a metric series of their own, so that metrics
// by tenant do not become more than a monitoring system can hold.
//
// A [Policy] turns tenants into values of a label: none at all; those of a list, the
// rest in "default"; or up to a budget those with the most traffic, the rest in
// "other". Within a budget values are given as tenants come. When it is used up, a tenant
// that had clearly more than twice the traffic of one with a value, for a whole window, takes its
// place; so values do not flap, and stay for a window at least.
//
// A tenant that loses its value counts in "other" from then on. Its series stands still
// until nobody can be counting in it any more, then what it held is added to "other" and
// it ends: sums over all values never fall. A rate of "other" shows that as a jump;
// [Policy.Totals] counts them.
//
// Values are fit to be shown: whatever a tenant is called, its value is printable, of
// bounded length, and no other tenant's.
package labels
