# Sourced: a conversation with a daemon by hand, and what is in its records.

# ask SOCKET LINE...: prints what the daemon says, greeting left out.
ask() {
	local socket=$1
	shift
	printf '%s\n' "$@" | socat -t 300 - "UNIX-CONNECT:$socket" | tail -n +2
}

# field KEY: its values in the records on stdin.
field() { sed -n "s/.* $1=\([^ 	]*\).*/\1/p"; }
