package policytest_test

import (
	"fmt"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

func ExampleKit_Search() {
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "open", Rules: []policy.Rule{{Name: "all"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	kit := policytest.New(set)
	found, _, err := kit.Search(policytest.Space{}, policytest.Never(policytest.AnyRequest, policytest.IsProvider))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found.Err)
	fmt.Println(found.Differs)
	// Output:
	// provider provider gets the request, which must never be
	// [candidate provider [a provider]]
}

func ExampleKit_Evaluate() {
	set, err := policy.Compile(policy.Options{}, &policy.Spec{Name: "open", Rules: []policy.Rule{{Name: "all"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	o := policytest.New(set).Evaluate(policy.Request{Model: "m"}, policytest.Provider("cloud", "m"), policytest.Worker("gpu", "m"))
	fmt.Println(o.Order(), o.Plan.Rule)
	// Output: [gpu cloud] all
}
