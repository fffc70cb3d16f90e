// Package price says what a request costs.
//
// All sums are whole numbers. Prices are in millionths of a currency per million tokens,
// so that 3 dollars per million tokens are 3,000,000; what a request costs is in
// millionths of the currency, added up exactly and then rounded up, once. Which currency
// that is, is the operator's business: there is one for all.
//
// A [Table] finds the prices of a model at a provider, or on the fleet's own workers,
// and is not changed once it is made. Package file below this one reads tables.
package price
