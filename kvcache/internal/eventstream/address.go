package eventstream

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxIPCPath is the longest path that fits sun_path with its terminator on every
// platform (Darwin has the smallest, 104 bytes).
const maxIPCPath = 103

// AddressError says why an endpoint address can't be used and what to write.
type AddressError struct {
	// Address is the address as given.
	Address string
	// Reason is the fault and the remedy.
	Reason string
}

// Error returns the address and the reason.
func (e *AddressError) Error() string {
	return fmt.Sprintf("event address %q: %s", e.Address, e.Reason)
}

// Address is a checked endpoint address.
type Address struct {
	// Network is "tcp" or "unix", as package net names them.
	Network string
	// Target is the host:port or the path, as package net takes it.
	Target string
	// URI is the address as libzmq takes it.
	URI string
}

// ParseDial checks an address to connect to: tcp://host:port or ipc://path.
func ParseDial(s string) (Address, error) {
	a, err := parse(s)
	if err != nil || a.Network != "tcp" {
		return a, err
	}
	host, port, err := splitHostPort(s, a.Target)
	if err != nil {
		return Address{}, err
	}
	switch host {
	case "*", "0.0.0.0", "::":
		return Address{}, &AddressError{s, fmt.Sprintf("that is where the engine listens, not where it is; "+
			"use the worker's host name or IP address, for example tcp://10.0.0.7:%d", port)}
	case "":
		return Address{}, &AddressError{s, fmt.Sprintf("host is missing; use for example tcp://10.0.0.7:%d", port)}
	default:
	}
	if port == 0 {
		return Address{}, &AddressError{s, "port 0 means any free port and can't be dialled; " +
			"use the port that the engine reports"}
	}
	return a, nil
}

// ParseListen checks an address to listen on: as ParseDial, but the host may be
// "*" and the port 0.
func ParseListen(s string) (Address, error) {
	a, err := parse(s)
	if err != nil || a.Network != "tcp" {
		return a, err
	}
	host, port, err := splitHostPort(s, a.Target)
	if err != nil {
		return Address{}, err
	}
	if host == "*" {
		a.Target = net.JoinHostPort("", strconv.Itoa(port))
	}
	return a, nil
}

func parse(s string) (Address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case s == "":
		return Address{}, &AddressError{s, "no address; use for example tcp://10.0.0.7:5557"}
	case !ok:
		return Address{}, &AddressError{s, "scheme is missing; use tcp://host:port or ipc://path"}
	case scheme == "tcp":
		return Address{Network: "tcp", Target: rest, URI: s}, nil
	case scheme != "ipc":
		return Address{}, &AddressError{s, "only tcp://host:port and ipc://path are supported"}
	case rest == "" || rest == "@" || strings.ContainsRune(rest, 0):
		return Address{}, &AddressError{s, "path is missing or not a path; use for example ipc:///run/engine/events"}
	case len(rest) > maxIPCPath:
		return Address{}, &AddressError{s, fmt.Sprintf("path is %d bytes long; a socket's path "+
			"holds at most %d", len(rest), maxIPCPath)}
	default:
		return Address{Network: "unix", Target: rest, URI: s}, nil
	}
}

func splitHostPort(s, target string) (string, int, error) {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return "", 0, &AddressError{s, "host and port must be given as tcp://host:port, for example tcp://10.0.0.7:5557; " +
			"IPv6 as tcp://[fd00::7]:5557"}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, &AddressError{s, "port must be a number up to 65535, for example tcp://10.0.0.7:5557"}
	}
	if strings.ContainsAny(host, ";/ @") {
		return "", 0, &AddressError{s, "host must be a plain host name or IP address"}
	}
	return host, int(port), nil
}
