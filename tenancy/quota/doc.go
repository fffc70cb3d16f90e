// Package quota decides whether a request may be served now: how many requests,
// tokens and how much money each organisation, team, tenant, key, model and class of
// service may take, and how many requests at a time.
//
// A [Limiter] is made of [Rule]s. A request must be let through by every level of
// them, all or nothing: [Limiter.Reserve] takes from all buckets that the request
// falls into, or from none and says by a [Error] which rule refused and when it
// would not. What was reserved is an estimate; [Reservation.Settle] replaces it by
// what was really used, [Reservation.Refund] gives all of it back. One of the two
// takes effect, once.
//
// # Rates
//
// A rate is a bucket (GCRA, the leaky bucket as a meter): it holds Burst, refills
// with Amount per Per, and lets a request through that finds enough in it. So within
// any time t at most Burst + Amount·t/Per pass, plus what requests used beyond their
// estimates: that is debt, and the bucket lets nothing through until it is paid. All
// arithmetic is in whole numbers and exact, however often something is given back.
//
// What is given back is what the bucket has not refilled meanwhile, where it refills what
// was taken first first: all of it soon after, nothing once Burst·Per/Amount have passed, or
// the bucket has been full. It may be taken again, so that what is given back within t of
// requests that were let through before passes on top of the above.
//
// What is only expected of a request, the answer's length, the cost and what is cached, never
// refuses it for good. If it is more than there can be, all that there can be is reserved,
// and the rest is debt if it is used. So Permanent means that the prompt alone, by its
// cheapest Weight, is more than the limit.
//
// # Budgets
//
// A [Budget] is an amount for a period of the calendar, in a time zone, or for the
// last so many hours. A hard one refuses, and says what was spent and when it begins
// anew, which is a guess if requests under way hold what is left ([Error.Exact]); of one
// that has reached its soft limit OnSoft is told once in a period, and [Hold.Soft] whoever
// is let through.
//
// # Long requests
//
// Options.MaxAge is for requests whose end was lost. One that really runs for longer
// counts as used as estimated, and not as running any more; so MaxAge is to be longer
// than the longest answer, and nothing needs to be renewed: a Limiter's Reservations die
// with it. Those of package redis outlive their process, and it renews them itself.
//
// # State
//
// Everything is in memory and of one process; package redis shares limits between
// processes, by a [Plan]. [Limiter.Update] changes the rules and keeps the state; package
// file reads them from YAML. A bucket that is full and unused is the same as none and is forgotten.
// Times are differences of Options.Now: a clock with a monotonic reading, as
// time.Now has, may be set at any time; another one that is set back stands still.
package quota
