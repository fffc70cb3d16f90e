// Package pb encodes the messages of package replica in protobuf, by the schema in
// replica.proto, for carriers to send: [Marshal] and [Unmarshal].
//
// What comes in is believed to come from anyone. Unmarshal refuses what is beyond the
// bounds of package replica before it makes room for it, and messages of more than
// [MaxBytes] at all; it skips fields that it doesn't know.
package pb

//go:generate go run -C ../../internal/protogen . -name kvsteer/replica/v1/replica.proto ../../replica/pb/replica.proto ../../replica/pb/internal/replicav1
