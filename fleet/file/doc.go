// Package file is a fleet.Discoverer that reads the workers from a YAML or JSON
// file and follows its changes.
//
// The file has one key, workers, with the fields of fleet.Worker:
//
//	workers:
//	  - name: gpu-0
//	    url: http://10.0.0.7:8000
//	    class: h100-tp2
//	    labels: {region: eu}
//	    events:
//	      - events: tcp://10.0.0.7:5557
//	        replay: tcp://10.0.0.7:5558
//
// A list without the key workers around it is taken too. Unknown keys, keys given
// twice and values of the wrong kind are errors that name line and column. An
// empty file is an error, because it is what a half-written one looks like; write
// "workers: []" for no workers.
//
// The file is polled, not watched by the system: that works on every file system
// and with every way of replacing a file, among them the symbolic links of a
// Kubernetes ConfigMap. A file that is wrong or missing changes nothing: the last
// good list stays in force, and Fleet.Err says what is wrong.
package file
