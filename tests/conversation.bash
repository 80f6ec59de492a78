# Sourced: a conversation with a daemon by hand, what is in its records and in a job's status, and how to wait
# for something.

# nap MICROSECONDS: without a process; nobody ever writes into this pipe. It is opened here, because what
# makes it is a child and changes $!.
[ -n "${NAP-}" ] || exec {NAP}<> <(:)
nap() {
	local seconds
	printf -v seconds %d.%06d $(($1 / 1000000)) $(($1 % 1000000))
	read -rt "$seconds" -u "$NAP" || :
}

# gone PID: it has ended. bash may miss the end of a child, most of all of one that was stopped: it stays a zombie.
gone() {
	local stat
	kill -0 "$1" 2>/dev/null || return 0
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	[[ ${stat##*) } == Z* ]]
}

# holds_within SECONDS 'CONDITION' ['UNLESS']: waits until the condition holds; not once UNLESS does. A
# limit, not a measurement. It looks each 50 ms, and less often where to look takes long or what is waited for
# does: the shells and filters of those who wait would take the cores from those for whom they wait.
holds_within() {
	local holds_until=$((SECONDS + $1)) holds_began=${EPOCHREALTIME/./} holds_looked holds_now holds_pause
	while :; do
		holds_looked=${EPOCHREALTIME/./}
		if eval "$2"; then return 0; fi
		if [ -n "${3-}" ] && eval "$3"; then return 1; fi
		[ "$SECONDS" -lt "$holds_until" ] || break
		holds_now=${EPOCHREALTIME/./}
		holds_pause=$((3 * (holds_now - holds_looked)))
		holds_now=$(((holds_now - holds_began) / 8))
		holds_pause=$((holds_now > holds_pause ? holds_now : holds_pause))
		nap $((holds_pause < 50000 ? 50000 : holds_pause > 400000 ? 400000 : holds_pause))
	done
	echo "waited in vain for: $2" >&2
	return 1
}

# ask SOCKET LINE...: prints what the daemon says, greeting left out.
ask() {
	local socket=$1
	shift
	printf '%s\n' "$@" | socat -t 300 - "UNIX-CONNECT:$socket" | tail -n +2
}

# field KEY: its values in the records on stdin.
field() { sed -n "s/.* $1=\([^ 	]*\).*/\1/p"; }

# in_status REGEX: whether a line of `status` is so; its groups in $BASH_REMATCH. Who waits looks often: no
# filters. said REGEX: its first group.
in_status() {
	local lines line
	lines=$(status 2>/dev/null) || :
	mapfile -t lines <<<"$lines"
	for line in "${lines[@]}"; do
		if [[ $line =~ $1 ]]; then return 0; fi
	done
	return 1
}
said() { if in_status "$1"; then echo "${BASH_REMATCH[1]}"; fi; }

# open NAME SOCKET: a conversation; `tell NAME TEXT` says something, answers come in NAME.answers.
open() {
	local fd
	mkfifo "$1.in"
	socat - "UNIX-CONNECT:$2" <"$1.in" >"$1.answers" 3>&- &
	PIDS+=($!)
	exec {fd}>"$1.in"
	printf -v "FD_$1" %s "$fd"
	printf -v "PID_$1" %s "$!"
}

# hang_up NAME: ends it, whoever else has inherited its pipe; its name may be used again.
hang_up() {
	local name="FD_$1" pid="PID_$1"
	local fd=${!name}
	kill "${!pid}" 2>/dev/null || : # it has ended with the other side
	exec {fd}>&-
	rm "$1.in"
}

tell() {
	local fd="FD_$1"
	printf '%b' "$2" >&"${!fd}"
}

# answered NAME TEXT: until a line of the answers says TEXT.
answered() {
	wait_for "grep -aqE '$2' '$1.answers'" || { cat "$1.answers"; return 1; }
}
