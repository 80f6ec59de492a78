# rooms: solve
load helper

# links IN/OUT HOST...: of one rate.
links() {
	local rate=$1
	shift
	printf "link host=%s in=$rate out=$rate\n" "$@"
}

# plan_of OPTIONS: its last line; the state is in `in`.
plan_of() {
	xfer-sched "$@" <in | tail -n 1
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 xfer-sched --help
	[[ $output == "usage: xfer-sched "* ]]
	run -0 xfer-sched --version
	run -64 xfer-sched more </dev/null
	run -64 xfer-sched -m slow </dev/null
	[[ $output == *"'slow' is none of async|ssp|sync|round"* ]]
	run -64 xfer-sched --divergence-max far </dev/null
	[[ $output == *"'far' is neither a distance nor N:updates"* ]]
	run -64 xfer-sched --momentum 1 </dev/null
}

@test "shortest first, and a name for each reason of a drop" {
	{
		links 1e9 a b c s
		echo 'link host=dead in=1e9 out=0'
		echo 'server host=s version=7'
		echo 'update id=long host=a bytes=300000000 version=7'
		echo 'update id=short host=b bytes=100000000 version=7'
		echo 'update id=old host=c bytes=1 version=2'
		echo 'update id=none host=dead bytes=1 version=7'
	} >in
	run -0 xfer-sched --delay-max 4 <in
	[ "${lines[0]}" = "drop id=old reason=overdue" ]
	[ "${lines[1]}" = "drop id=none reason=nopath" ]
	[ "${lines[2]}" = "send id=short from=b to=s start=0 end=0.1 commit=0.1" ]
	[ "${lines[3]}" = "send id=long from=a to=s start=0.1 end=0.4 commit=0.4" ]
	[ "${lines[4]}" = "plan end=0.4 mean=0.25 sent=2 dropped=2 groups=0" ]
	# Synchronous training has no delay.
	run -0 xfer-sched -m sync --delay-max 4 <in
	[[ ${lines[-1]} == "plan "*" sent=3 dropped=1 "* ]]
}

@test "a delay of no version is one position; a margin saves what is a little late" {
	{
		links 1000 a s
		echo 'link host=b in=1000 out=900'
		echo 'server host=s version=3'
		echo 'update id=u0 host=a bytes=1000 version=3'
	} >in
	run -0 xfer-sched --delay-max 0 <in
	[[ ${lines[-1]} == *" sent=1 dropped=0 "* ]]
	printf 'link host=s2 in=2000 out=1\nserver host=s2 version=3 part=1\n' >>in
	printf 'update id=u1 host=b bytes=1000 deadline=1 part=1\nupdate id=u2 host=a bytes=1000 deadline=9 part=1\n' >>in
	sed -i '/u0/d' in
	run -0 xfer-sched <in
	[ "${lines[0]}" = "drop id=u1 reason=rival" ]
	run -0 xfer-sched --margin 25 <in
	[[ ${lines[-1]} == *" sent=2 dropped=0 "* ]]
}

@test "rates that change, ready times, hosts without a limit" {
	{
		printf 'link host=a out=6e6\nlink host=a out=3e6 at=2\nlink host=a out=4e6 at=4\nlink host=s\n'
		echo 'server host=s version=0'
		echo 'update id=u0 host=a bytes=30000000 version=0'
		echo 'update id=u1 host=s bytes=5 version=0 ready=1.5'
	} >in
	run -0 xfer-sched <in
	[ "${lines[0]}" = "send id=u0 from=a to=s start=0 end=7 commit=7" ]
	[ "${lines[1]}" = "send id=u1 from=s to=s start=1.5 end=1.5 commit=1.5" ]
}

@test "groups: sums of a host, aggregators that are named, as many as asked for, or none" {
	{
		links 1e9 a b c d e s
		echo 'server host=s version=0 bytes=100000000'
		printf 'update id=u%s host=%s bytes=100000000 version=0\n' 0 a 1 a 2 b 3 c 4 d
	} >in
	run -0 xfer-sched <in
	[ "${lines[0]}" = "group id=a1 aggregator=a members=u0,u1" ]
	[ "${lines[1]}" = "send id=a1 from=a to=s start=0 end=0.1 commit=0.1" ]
	[ "$(plan_of -m sync)" = "plan end=0.4 mean=0.22 sent=5 dropped=0 groups=1" ]
	[ "$(plan_of -m sync -k 1)" = "plan end=0.3 mean=0.2 sent=5 dropped=0 groups=2" ]
	# What adds slowly is not used.
	echo 'aggregator host=e sum-rate=1e8' >>in
	[ "$(plan_of -m sync)" = "plan end=0.4 mean=0.22 sent=5 dropped=0 groups=1" ]
	run -0 xfer-sched -m sync -k 0 <in
	[[ $output != *aggregator=e* ]]
}

@test "several servers: each gets the sum of its part, and a replica has all parts" {
	{
		links 1e9 a b c d e f g h s t r
		printf 'server host=%s version=0 part=%s bytes=%s\n' s 0 60000000 t 1 40000000
		for u in 0a 1b 2c 3d 4e 5f 6g 7h; do
			echo "update id=u${u%?} host=${u#?} bytes=60000000 version=0 norm=1"
			echo "update id=u${u%?} host=${u#?} bytes=40000000 version=0 norm=1 part=1"
		done
	} >in
	run -0 xfer-sched -m sync -k 1 <in
	[ "${lines[0]}" = "group id=a1 aggregator=a members=u5,u6,u7" ]
	[[ $output == *"send id=u7 from=h to=a start="* ]]
	[ "$(grep 'id=a1 from' <<<"$output")" = "$(printf 'send id=a1 from=a to=s start=0.3 end=0.36 commit=0.4\nsend id=a1 from=a to=t start=0.36 end=0.4 commit=0.4')" ]
	# A commit has all parts; what a replica lacks is bounded as with one server.
	echo 'replica host=r version=0' >>in
	run -0 xfer-sched -m sync -k 1 --divergence-max 4:updates <in
	[[ ${lines[-1]} == "plan "*" sent=8 dropped=0 groups=1" ]]
	[ "$(grep -c '^replica' <<<"$output")" -eq 8 ]
	# Both of a host are summed there; one part alone is sent as it is.
	sed -i '/^update/s/host=b/host=a/; /id=u2 .*part=1/d; /^replica/d' in
	run -0 xfer-sched -m sync -k 0 <in
	[ "${lines[0]}" = "group id=a1 aggregator=a members=u0,u1" ]
	[ "$(grep -c 'send id=a1 ' <<<"$output")" -eq 2 ]
	[ "$(grep -c 'send id=u2 ' <<<"$output")" -eq 1 ]
}

@test "a search is never worse, and says the same again" {
	{
		links 1e9 a b c d e f s
		printf 'link host=%s in=%s out=%s\n' g 3e8 2e8 h 1e9 2e8
		echo 'server host=s version=0 bytes=200000000'
		printf 'aggregator host=%s\n' g a
		printf 'update id=u%s host=%s bytes=%s version=0\n' 0 a 90000000 1 b 200000000 2 h 150000000 \
			3 h 40000000 4 g 100000000 5 f 70000000
	} >in
	for mode in sync async; do
		key=end
		[ $mode = sync ] || key=mean
		paper=$(plan_of -m $mode | field $key)
		search=$(plan_of -m $mode --method local | field $key)
		awk -v a="$search" -v b="$paper" 'BEGIN { exit !(a < b) }'
	done
	xfer-sched --method local <in >one
	xfer-sched --method local <in >two
	cmp one two
}

@test "an aggregator that adds a byte a second: its time overflows in no search" {
	{
		links 1e9 $(seq -f h%g 16)
		echo 'link host=s in=1e9 out=1'
		echo 'server host=s version=0 bytes=1'
		echo 'aggregator host=h15 sum-rate=1'
		printf 'update id=u%s host=h%s bytes=2000000000 version=0\n' $(seq 16 | sed 's/.*/& &/')
	} >in
	[ "$(plan_of -m sync --method local)" = "plan end=32 mean=17 sent=16 dropped=0 groups=0" ]
	[ "$(plan_of --method local)" = "plan end=32 mean=17 sent=16 dropped=0 groups=0" ]
}

@test "a replica: what it needs goes there, the rest waits, and commits wait for it" {
	{
		links 1000 a b s
		echo 'link host=r in=100 out=100'
		echo 'server host=s version=5'
		echo 'replica host=r version=4 history=1'
		echo 'update id=u0 host=a bytes=100 committed=1 norm=1'
		echo 'update id=u1 host=b bytes=100 version=5 norm=1'
		echo 'update id=u2 host=b bytes=100 version=5 norm=1'
	} >in
	# Three steps are 3 apart, by their norms: half of the bound is not exceeded.
	run -0 xfer-sched --divergence-max 6 <in
	[ "$(grep -c '^replica' <<<"$output")" -eq 0 ]
	[ "$(grep -c '^punt' <<<"$output")" -eq 3 ]
	run -0 xfer-sched --divergence-max 2 <in
	[ "$(grep '^replica' <<<"$output")" = "$(printf 'replica id=u%s start=%s end=%s\n' 0 0 1 1 1 2 2 2 3)" ]
	[ "$(grep -c '^punt' <<<"$output")" -eq 0 ]
	# The third commits once the replica has the first, a second from now.
	[[ $output == *"send id=u2 from=b to=s start=0.1 end=0.2 commit=1"* ]]
	run -0 xfer-sched --divergence-max 2:updates --momentum 0.9 <in
	[[ $output == *"send id=u2 from=b to=s start=0.1 end=0.2 commit=1"* ]]
	run -0 xfer-sched --divergence-max 0.5 <in
	[[ $output == *" above=2" ]]
	# Without a bound it gets all.
	run -0 xfer-sched <in
	[ "$(grep -c '^replica' <<<"$output")" -eq 3 ]
	sed 's/ norm=1//; s/version=4/version=3/' in >bad
	run -65 xfer-sched <bad
	[[ $output == *"the replica has version 3, the server 5, and 1 updates are committed=1"* ]]
	run -65 xfer-sched --divergence-max 1 <bad
	[[ $output == *"stdin:7: --divergence-max needs norm="* ]]
}

@test "a model goes out through a distributor" {
	{
		links 1000 a b c d s
		echo 'distributor host=a'
		echo 'model host=s bytes=1000 to=a,b,c,d'
	} >in
	run -0 xfer-sched <in
	[ "$(grep -c '^send id=model ' <<<"$output")" -eq 4 ]
	[ "${lines[0]}" = "send id=model from=s to=a start=0 end=1" ]
	[ "$(grep -c 'from=a' <<<"$output")" -gt 0 ]
	sed -i '/distributor/d; s/to=.*/to=a/; s/host=a in=1000/host=a in=0/' in
	run -0 xfer-sched <in
	[ "${lines[0]}" = "drop id=model to=a reason=nopath" ]
}

@test "a round: shares by rate, or the ring" {
	{
		links 1e8 a b c
		echo 'model host=a bytes=100000000'
		printf 'update id=u%s host=%s bytes=1 version=0\n' 0 a 1 b 2 c
	} >in
	run -0 xfer-sched -m round <in
	[ "${lines[0]}" = "round method=ring end=1.33333333 ring=1.33333333" ]
	[ "$(grep -c '^owner ' <<<"$output")" -eq 64 ]
	sed -i 's/host=b in=1e8 out=1e8/host=b in=2e8 out=2e8/' in
	run -0 xfer-sched -m round <in
	[ "${lines[0]}" = "round method=rate end=1 ring=1.33333333" ]
	[ "${lines[2]}" = "share host=b part=1" ]
	[ "$(grep -c '^owner .*host=b$' <<<"$output")" -eq 64 ]
	sed -i /model/d in
	run -65 xfer-sched -m round <in
}

@test "bad input: 65 with its line" {
	bad() { # LINE TEXT: what follows the links and the server
		links 1 a s >in
		printf 'server host=s version=1\n%b\n' "$1" >>in
		run -65 xfer-sched <in
		[[ $output == "xfer-sched: stdin:$2"* ]]
	}
	run -65 xfer-sched </dev/null
	[ "$output" = "xfer-sched: stdin: neither an update nor a model" ]
	bad 'update id=u host=x bytes=1 version=1' '4: host x has no link before this line'
	bad 'update id=u host=a bytes=many version=1' "4: bytes=: 'many' is not a whole number"
	bad 'update id=u host=a bytes=-1 version=1' '4: bytes='
	bad 'update id=u host=a bytes=9007199254740993 version=1' '4: bytes='
	bad 'update id=u host=a bytes=1' '4: neither version= nor deadline='
	bad 'update id=u host=a bytes=1 version=1 part=3' '4: no server of part 3 before this line'
	bad 'update id=u host=a bytes=1 version=1\nupdate id=u host=a bytes=1 version=1' '5: update u appears twice'
	bad 'server host=s version=1 part=1\nupdate id=u host=a bytes=1 version=1\nupdate id=u host=a bytes=1 version=1 part=1 ready=5' \
		'6: update u has another version=, deadline=, ready= or norm= than before'
	bad 'update id=a1 host=a bytes=1 version=1' '4: id=a1 is the name of a sum or a model'
	bad 'server host=a version=1' '4: part 0 has two servers'
	seq 513 | sed 's/.*/update id=u& host=a bytes=9007199254740992 version=1/' >many
	bad "$(<many)" '516: the updates up to here have more than 2^62 bytes together'
	seq 513 | sed 's/.*/link host=h&/' >many
	bad "$(<many)\nmodel host=a bytes=9007199254740992" '517: a copy for each of 515 hosts is more than 2^62'
	bad 'link host=a in=2' '4: host a appears twice; from when on? at= is missing'
	bad 'link host=a in=2 at=3\nlink host=a in=2 at=3' '5: a rate from a time that is not later'
	bad 'link host=b in=1e300' '4: in=: '
	bad 'aggregator host=a\naggregator host=a' '5: aggregator a appears twice'
	bad 'aggregator host=a sum-rate=0' '4: sum-rate=0'
	bad 'model host=a bytes=1 to=s,z' '4: to=: host z has no link before this line'
}

@test "unknown records: a warning, or 65" {
	links 1 a s >in
	printf 'server host=s version=1\nlater a=1\nlater a=2\nupdate id=u host=a bytes=1 version=1\n' >>in
	run -0 xfer-sched <in
	[ "${lines[0]}" = "xfer-sched: stdin:4: passing over records of unknown type 'later'" ]
	[[ ${lines[1]} == "send "* ]]
	run -65 xfer-sched --strict <in
	[[ $output == *"stdin:4: unknown record type 'later'"* ]]
}

@test "two thousand updates of which each takes its place, and a group longer than a line" {
	{
		seq 50 | sed 's/.*/link host=h& in=1e9 out=1e9/'
		printf 'link host=s in=1e9 out=1e9\nserver host=s version=0 bytes=1000000\n'
		seq 2000 | awk '{ print "update id=" sprintf("%050d", $1) " host=h" $1 % 50 + 1 " bytes=" 500 + $1 " version=0" }'
	} >in
	run -0 xfer-sched -m sync -k 4 <in
	[[ ${lines[-1]} == "plan "*" sent=2000 dropped=0 groups="* ]]
	# Each update is sent once; a group of many has many records.
	[ "$(grep -c '^send id=0' <<<"$output")" -eq 2000 ]
	[ "$(grep -c '^group id=a1 ' <<<"$output")" -gt 1 ]
	members=$(sed -n 's/^group .*members=//p' <<<"$output" | tr , '\n' | sort -u | wc -l)
	to=$(grep -c '^send id=0.* to=h' <<<"$output")
	[ "$members" -eq "$to" ]
}

@test "several servers: what was planned before is not kept for each update" {
	if grep -q __asan_init "$(command -v xfer-sched)"; then skip "ASan needs more memory than is given here"; fi
	{
		links 1e9 a b c s t
		printf 'server host=s version=0\nserver host=t version=0 part=1\n'
		seq 40000 | awk '{ host = substr("abc", $1 % 3 + 1, 1)
			for (part = 0; part < 2; part++)
				print "update id=u" $1 " host=" host " bytes=" 1000 + $1 % 7 " version=0 part=" part }'
	} >in
	run -0 bash -c 'ulimit -v 200000 && xfer-sched <in | tail -n 1'
	[[ $output == "plan "*" sent=40000 dropped=0 groups=0" ]]
}
