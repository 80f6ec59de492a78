# The programs in surroundings that are not the writer's own: see tests/surroundings, which has what the
# variables are. helper.bash has cleaned up for the tests' tools; here the programs get it all.
load helper

# around NAME COMMAND...
around() {
	"$PACELINE_ROOT/tests/surroundings" -x "$@"
}

# A job of all parts: a model that multiplies, a solution in awk, rows that are scored.
whole_job() {
	data 3000
	printf 'y,a,b\n1,90,c1\n0,5,c2\n1,80,c3\n0,20,c4\n' >test.csv
	job MODEL=wdl,embed:4,hidden:8-4 "TEST=$T/test.csv" EPOCHS=2 "SOLUTION=$T/half,every:0.1" MONITOR=short:0.2 \
		"DRAG=$T/drag" CHECKPOINT=0.2
	half
	mkdir drag
	echo 'drag speed=4000' >drag/w0
	echo 'drag speed=2000' >drag/w1
}

# A solution that reads and writes a number with a point: reason=1.5.
half() {
	printf '%s\n' '#!/usr/bin/awk -f' 'END { print "action kind=none reason=" "2.5" * 0.6 }' >half
	chmod +x half
}

# went_well RUN: all was done, and the solution's numbers were read and written as records have them.
went_well() {
	grep -q '^summary .* state=done .* samples=6000 .* held=0 restarts=0 .* auc=1 ' out
	ckpt verify "$(ckpt latest "$1/state/checkpoints")"
	grep -q '^action kind=none reason=1.5$' "$1/state/job.log"
}

@test "a whole job in each of them" {
	local name
	whole_job
	for name in bare homeless blas blanks xdg service locale no-locale posix words young old foreign; do
		echo "$name:"
		rm -rf run
		status=0
		around "$name" trainctl run job.env --run-dir "$T/run" >out 2>err || status=$?
		[ "$status" != 77 ] || continue
		cat err
		[ "$status" -eq 0 ]
		went_well run
	done
}

@test "solutions and feeds read and write numbers with a point, whatever the language" {
	half
	echo 'job at=1000 iter=40 workers=0 servers=0' >snapshot
	[ "$(around locale trainctl solve ./half <snapshot)" = 'action kind=none reason=1.5' ]
	printf 'decision solution=%s at=1\n' "$T/half" | cat - snapshot >log
	echo 'decided actions=1 at=1' >>log
	around locale trainctl solve --log log | grep -q 'reason=1.5$'
	start monitor bpt-monitor -s m.sock
	ready m.sock
	around foreign "$PACELINE_ROOT/scripts/cron/feed-load" "$T/m.sock"
	around foreign "$PACELINE_ROOT/scripts/cron/feed-pending" "$T/m.sock" printf '%s\n' 12.5 7
	ask m.sock snapshot | grep -q '^info name=pending value=12.5 '
}

@test "directories: XDG_* that are nobody's, another's, or no path; no HOME" {
	local dir name=around-$BASHPID
	local short=/tmp/paceline-$UID/$name
	local another=/
	data 100
	job
	if [ "$(id -u)" = 0 ]; then
		another=$T/another
		mkdir another
		chown 65534 another
	fi
	for dir in /dev/null/runtime "$another" relative; do
		rm -rf home
		XDG_RUNTIME_DIR=$dir run trainctl run job.env --set "JOB=$name"
		rm -rf "$short"
		[ "$status" -eq 0 ]
		[ -e "home/paceline/$name/summary" ]
		not test -e "$dir/paceline"
	done
	# a relative one counts as none
	mkdir stead
	HOME=$T/stead XDG_STATE_HOME=relative run trainctl run job.env --set "JOB=$name"
	rm -rf "$short"
	[ "$status" -eq 0 ]
	[ -e "stead/.local/state/paceline/$name/summary" ]
	unset HOME
	XDG_STATE_HOME=relative run -78 trainctl run job.env --set "JOB=$name"
	[[ $output == *"--state-dir"*"neither XDG_STATE_HOME nor HOME"* ]]
	run trainctl run job.env --set "JOB=$name" --state-dir "$T/s"
	rm -rf "$short"
	[ "$status" -eq 0 ]
}

@test "a run directory may have blanks and more in its name, but no comma" {
	local dir="$T/100% of \$a;  it's *"
	data 100
	job
	run -0 trainctl run job.env --run-dir "$dir"
	ckpt verify "$(ckpt latest "$dir/state/checkpoints")"
	run -78 trainctl run job.env --run-dir "$T/a,b"
	[[ $output == *"a,b: has a comma, which separates sockets in lists"* ]]
	not test -e "$T/a,b"
}
