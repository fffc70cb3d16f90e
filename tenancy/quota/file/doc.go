// Package file reads limits from a YAML or JSON file, and follows it as it changes.
//
//	weights: {cached: 0.1, cacheWrite: 1.25, reasoning: 1} # of a token; 1 where nothing is said
//	rules:
//	- name: gold                    # rules of one level: the first that matches holds
//	  level: tenant                 # the scope's name where nothing is said
//	  scope: tenant                 # everybody, org, team, tenant or key
//	  tenants: [acme]               # also orgs, models, classes; nothing means all
//	  tokens: {amount: 2_000_000, per: 1m, burst: 500_000}
//	  requests: 600                 # a minute; also input and output
//	  concurrency: 50
//	- name: tenants
//	  scope: tenant
//	  perModel: true                # and perClass: buckets of their own
//	  tokens: 100_000
//	- name: money
//	  level: money
//	  scope: org
//	  budget: {money: 1_000.50, tokens: 50_000_000, period: month, zone: Europe/Berlin, softAt: 90}
//	- name: trial
//	  level: trial
//	  scope: team
//	  classes: [trial]
//	  budget: {money: 5, window: 24h, soft: true}
//	- name: no batch
//	  level: batch
//	  classes: [batch]
//	  deny: true
//
// Every key is one of [quota.Rule], [quota.Rate] or [quota.Budget], with its defaults.
// Money is in whole units of the currency, with up to six digits after the point. What is
// wrong, an unknown key for one, is refused with its line and column.
package file
