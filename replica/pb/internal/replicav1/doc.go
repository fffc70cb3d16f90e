// Package replicav1 is the generated code of replica.proto.
package replicav1
