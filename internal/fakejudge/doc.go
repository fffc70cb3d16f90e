// Package fakejudge has fakes of the services that say something about texts: OpenAI's
// moderations endpoint, vLLM's /classify and Presidio's analyzer. They are what the tests
// of package policy/classify ask; internal/e2e/classify asks the real ones the same
// and compares the answers, form by form.
//
// What is faked is what a client sees: paths, fields, statuses, and how a bad request
// is refused. What is said about a text is the test's to decide.
package fakejudge
