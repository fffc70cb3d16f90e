#!/bin/sh
# Prints the licence of every module that the packages of our modules (the arguments) are
# built from, and fails for one that is missing, unknown or not permissive. It reads the
# files beside the code; MPL 2.0 passes, since it ends with the file.
set -u
cd "$(dirname "$0")/.." || exit 1
list=$(mktemp) && trap 'rm -f "$list"' EXIT
for m in "$@"; do
	(cd "$m" && CGO_ENABLED=0 GOWORK=off go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./...) || exit 1
done | grep -v '^github.com/kvsteer/' | grep . | sort -u >"$list"
kind() { # of the text in $1
	text=$(tr -s ' \t\r\n/*#' ' ' <"$1")
	case $text in
	*'GNU AFFERO'* | *'GNU GENERAL PUBLIC'* | *'GNU LESSER GENERAL'* | *'Server Side Public'* | *'Business Source'* | *'Commons Clause'*)
		case $text in # MPL and Apache name the GNU licences without being one
		*'Mozilla Public License Version 2.0'*) echo MPL-2.0 ;;
		*'Apache License'*) echo Apache-2.0 ;;
		*) echo "NOT PERMISSIVE" ;;
		esac
		;;
	*'Mozilla Public License'*'2.0'*) echo MPL-2.0 ;;
	*'Apache License'* | *'apache.org licenses LICENSE-2.0'*) echo Apache-2.0 ;;
	*'Redistribution and use in source and binary forms'*) echo BSD ;;
	*'Permission is hereby granted, free of charge'*) echo MIT ;;
	*'Permission to use, copy, modify, and'*'distribute this software'*) echo ISC ;;
	*'dedicated to the public domain'* | *'CC0 1.0 Universal'* | *'free and unencumbered software released into the public domain'*) echo CC0 ;;
	*) echo UNKNOWN ;;
	esac
}
bad=0
count=0
while read -r path version dir; do
	count=$((count + 1))
	found=
	for file in "$dir"/[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]* "$dir"/COPYING*; do
		[ -f "$file" ] || continue
		case $file in *-LOGO) continue ;; esac # of a picture that is not built in
		is=$(kind "$file")
		case " $found " in *" $is "*) ;; *) found="${found:+$found }$is" ;; esac
	done
	echo "$path $version ${found:-NONE}"
	case ${found:-NONE} in *UNKNOWN* | *'NOT PERMISSIVE'* | NONE) bad=$((bad + 1)) ;; esac
done <"$list"
echo "licences: $count dependencies, $bad of them missing, unknown or not permissive"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
