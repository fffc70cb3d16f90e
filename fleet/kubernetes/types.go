//nolint:lll,tagalign // the tags are the source of the schemas: a line each
package kubernetes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kvsteer/kvsteer/fleet"
)

//go:generate go test -run TestManifestsAreCurrent ./internal/crd -update-manifests

// GroupVersion is that of KVSteer's own custom resources.
var GroupVersion = schema.GroupVersion{Group: "kvsteer.dev", Version: "v1alpha1"} //nolint:gochecknoglobals // as every API package has it

// gatewayGroupVersion is that of the InferencePool of the Gateway API Inference
// Extension.
func gatewayGroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "inference.networking.k8s.io", Version: "v1"}
}

// The kinds of custom resources. InferencePolicy is the policy package's: its schema
// is that of policies.
const (
	KindPool      = "InferencePool"
	KindWorkerSet = "InferenceWorkerSet"
	KindProvider  = "InferenceProvider"
	KindPolicy    = "InferencePolicy"
	KindBackend   = "GatewayBackend"
)

// InferencePoolSpec chooses the pods of a pool. The InferencePool of the Gateway API
// Inference Extension has the first two fields as well.
type InferencePoolSpec struct {
	Selector    Selector     `json:"selector"              doc:"Pods that belong to the pool."`
	TargetPorts []TargetPort `json:"targetPorts,omitempty" doc:"Ports that engines listen on, one engine a port."      maxItems:"8"`
	Worker      Template     `json:"worker,omitzero"       doc:"What is said of each worker, unless its pod's annotations say otherwise."`
}

// InferenceWorkerSetSpec describes workers that are alike: pods, or servers outside of
// the cluster.
type InferenceWorkerSetSpec struct {
	Selector    *Selector      `json:"selector,omitempty"    doc:"Pods that are workers of the set. None if it is left out."`
	TargetPorts []TargetPort   `json:"targetPorts,omitempty" doc:"Ports that engines in these pods listen on, one engine a port." maxItems:"8"`
	Worker      Template       `json:"worker,omitzero"       doc:"What is said of each of these pods' workers, unless annotations say otherwise."`
	Workers     []fleet.Worker `json:"workers,omitempty"     doc:"Workers that are no pods, as in a fleet file: docs/discovery.md." maxItems:"1000"`
}

// Selector chooses pods by their labels.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels" doc:"Labels that they have, all of them." minProperties:"1"`
}

// TargetPort is a port of a pod.
type TargetPort struct {
	Number int `json:"number" doc:"The port's number." min:"1" max:"65535"`
}

// GatewayBackendSpec is what the routes of a gateway refer to.
type GatewayBackendSpec struct {
	Ref BackendRef `json:"ref" doc:"What serves the requests: an object in the same namespace."`
}

// BackendRef names an object in the same namespace.
type BackendRef struct {
	Kind string `json:"kind" doc:"Its kind."  enum:"InferencePool,InferenceWorkerSet,InferenceProvider"`
	Name string `json:"name" doc:"Its name."  minLength:"1"`
}

// Status is that of each of our custom resources.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty" doc:"The generation of the object that the rest is about."`
	Workers            *int               `json:"workers,omitempty"            doc:"How many workers there are, draining ones among them."`
	Conditions         []metav1.Condition `json:"conditions,omitempty"         doc:"What is true of the object."`
}

// Conditions of our custom resources, and their reasons.
const (
	// ConditionAccepted: the object is right, and what it says is in force.
	ConditionAccepted = "Accepted"
	// ConditionProgrammed: this release acts on what the object says.
	ConditionProgrammed = "Programmed"

	ReasonAccepted = "Accepted"
	// ReasonInvalid: the object is wrong; the message says where.
	ReasonInvalid = "Invalid"
	// ReasonLastGood: the object is wrong, and what it said before is still in force.
	ReasonLastGood = "LastGoodVersionInForce"
	// ReasonUnresolved: what the object refers to does not exist.
	ReasonUnresolved = "RefNotFound"
	// ReasonProgrammed: what the object says is acted on.
	ReasonProgrammed = "Programmed"
	// ReasonNotSupported: this release, or this program, has no use for the object.
	ReasonNotSupported = "NotSupported"
)
