# tests/run itself: what it counts, and that nothing is lost on the way.
load helper

# items NAME...: programs that say so in TAP; `bad` fails, `missing` skips.
items() {
	local name
	for name; do
		printf '#!/bin/sh\necho "ok 1 - %s"\n' "$name" >"$name"
		chmod +x "$name"
	done
	printf '#!/bin/sh\necho "not ok 1 - bad"; exit 1\n' >bad
	printf '#!/bin/sh\nexit 77\n' >missing
	chmod +x bad missing
}

items_run() { MAKELEVEL=1 "$PACELINE_ROOT/tests/run" build "${@/#/short:$T/}"; }

@test "run: passed, failed and skipped are counted" {
	items one two
	run -0 items_run one two missing
	[ "$(last)" = "2 passed, 0 failed, 1 skipped" ]
	run -1 items_run one bad two
	[ "$(last)" = "2 passed, 1 failed, 0 skipped" ]
	[[ $output == *"What failed:"*"short:$T/bad: not ok 1 - bad"* ]]
}

# A make that says what it is asked for.
@test "run: by hand, what is named is built first; where make calls it, it is not" {
	items one
	mkdir bin
	printf '#!/bin/sh\necho "make $*"\n' >bin/make
	chmod +x bin/make
	run -1 env -u MAKELEVEL PATH="$T/bin:$PATH" "$PACELINE_ROOT/tests/run" x "short:$T/one" unit:none asan/unit:none
	[[ $output == "make -s -j"*" BUILD=x asan"$'\n'"make -s -j"*" BUILD=x programs x/unit/none"$'\n'* ]]
	run -0 env PATH="$T/bin:$PATH" MAKELEVEL=1 "$PACELINE_ROOT/tests/run" x "short:$T/one"
	[[ $output != *"make "* ]]
	printf '#!/bin/sh\nexit 2\n' >bin/make
	run -2 env -u MAKELEVEL PATH="$T/bin:$PATH" "$PACELINE_ROOT/tests/run" x "short:$T/one"
	[ -z "$output" ]
}

@test "run: what passes only when it runs again alone has failed, and the end says that it passed then" {
	items one
	printf '#!/bin/sh\n[ -e %s ] || { : >%s; exit 1; }\n' "$T/again" "$T/again" >late
	chmod +x late
	run -1 items_run late one
	[ "$(last)" = "1 passed, 1 failed, 0 skipped" ]
	[[ $output == *"What failed:"*"short:$T/late: exit 1"*"short:$T/late, alone: passed"* ]]
}
@test "run: an item that is killed has failed" {
	items one
	printf '#!/bin/sh\nkill -9 $PPID; exec sleep 5\n' >killer
	chmod +x killer
	run -1 items_run killer one
	[ "$(last)" = "1 passed, 1 failed, 0 skipped" ]
}

# As bash does on a busy machine: a child has ended, and `wait -n` knows nothing of it.
@test "run: children that bash forgets are counted all the same" {
	items a b c d e f
	wait() {
		if [ "${1-}" = -n ]; then
			builtin wait -n
			return 127
		fi
		builtin wait "$@"
	}
	export -f wait
	run -0 items_run a b c d e f
	[ "$(last)" = "6 passed, 0 failed, 0 skipped" ]
}

last() { tail -n 1 <<<"$output"; }

# Their numbers, written down, may be another's when a test ends.
@test "run: kill_ours kills what is of the test, by its directory, its words or its parent, and nothing else" {
	sleep 300 &
	local child=$! stranger by_directory by_words pid
	: >"$T/words"
	by_directory=$(sleep 300 >/dev/null 3>&- & echo $!)
	by_words=$(cd / && { tail -f "$T/words" >/dev/null 2>&1 3>&- & echo $!; })
	stranger=$(cd / && { sleep 300 >/dev/null 3>&- & echo $!; })
	kill_ours "" 99999999 "$stranger" "$by_directory" "$by_words" $child
	for pid in "$by_directory" "$by_words" $child; do ended "$pid"; done
	kill -0 "$stranger"
	kill -9 "$stranger"
}
