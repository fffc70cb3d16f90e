// Package planted holds bugs that were put into the code on purpose, to show that the
// fault suite (package chaos) and the canary tests would find bugs like them. Each is one of the constants
// below, and an if in the place where such a bug could really be.
//
// Without the build tag "planted" all of them are false: the compiler drops the code
// behind them, and nothing can turn one on. With it the one that the environment
// variable KVSTEER_PLANTED names is on, for as long as the process runs. Nothing but
// make chaos-planted and make canary-planted builds with the tag.
package planted
