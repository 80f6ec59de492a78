#!/usr/bin/env bats
# What crash tests have tried: tests/tried keeps sums by commit, and fills in a page.

load helper

tried() { PACELINE_COMMIT=$1 PACELINE_TRIED=$T/sums.records "$PACELINE_ROOT/tests/tried" "${@:2}"; }

@test "sums by commit, and the last commit alone; a command's status and words" {
	printf '%s\n' '<!-- table exact -->' old '<!-- end -->' '<!-- table clean -->' '<!-- end -->' >sums.md
	tried one <<-'END'
		ok 1 - something
		tried tool=kills promise=exact what=kills%20of%20all times=999999 violations=2
		    tried tool=kills promise=exact what=kills%20of%20all times=1 violations=0
		tried tool=kills promise=clean what=jobs times=3 violations=0
	END
	run -3 tried two sh -c 'echo tried tool=kills promise=exact what=kills%20of%20all times=1234 violations=0; exit 3'
	[[ $output == "tried tool=kills "* ]]
	grep -qxF '| kills | kills of all | 1,001,234 | 2 | 1,234 of two, '"$(date -u +%F)"' | 0 |' sums.md
	grep -qxF '| kills | jobs | 3 | 0 | 3 of one, '"$(date -u +%F)"' | 0 |' sums.md
	not grep -q old sums.md
	[ "$(wc -l <sums.records)" = 3 ]
	# The sums of another machine.
	cp sums.records other
	tried three <other
	[ "$(grep -c 'commit=one .* times=2000000 violations=4 ' sums.records)" = 1 ]
	not grep -q three sums.records
	run -0 tried two true
	echo 'tried tool=kills promise=unknown what=jobs times=3 violations=0' >bad
	run -74 tried two <bad
	[[ $output == *"no place for table unknown"* ]]
	not grep -q unknown sums.records
}

@test "doc/reliability.md has the sums of its records" {
	"$PACELINE_ROOT/tests/tables" "$PACELINE_ROOT/doc/reliability.records" "$PACELINE_ROOT/doc/reliability.md" >page
	cmp page "$PACELINE_ROOT/doc/reliability.md"
}
