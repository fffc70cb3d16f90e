//go:build race

package prometheus_test

const raceDetector = true
