// Package recording keeps exchanges with upstreams as files, so that a fault can be reported with what caused it and played again
// offline (package replay). It imports codec, upstream, pipeline/secret and pipeline/atomicfile.
//
// A recording is two files of one name: NAME.json tells of the request and of the answer's header, and names the other, which holds
// the answer's body as it came, decoded from its content encoding.
//
// # What is left out
//
//   - Keys: of the header, fields that are known to hold none are kept; and whatever the Mask knows is masked everywhere.
//   - What the request says: each of its texts is replaced by its length, but for names, roles, types and ids. Names of members
//     stay, so that names of tools' parameters can be read.
//   - Lines of the answer that repeat the request.
//
// The answer itself, text and arguments of calls, stays as it is: it is what a recording is for. Whoever shares one should have
// read it.
package recording
