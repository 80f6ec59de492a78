load helper

# The quick start of README.md, as a reader pastes it: in a clone, with a home of its own.

quick_start() {
	awk '/^```sh$/ { on = 1; next } /^```$/ { exit } on' "$PACELINE_ROOT/README.md"
}

# What a clone has, as it is in the working tree now; where there is no repository, all but what was
# built.
sources() {
	cd "$PACELINE_ROOT" || return
	git -c safe.directory="$PACELINE_ROOT" ls-files -z 2>/dev/null ||
		find . -name 'build*' -prune -o -name .git -prune -o -type f -print0
}

@test "the quick start runs as it stands, from a clone" {
	mkdir clone
	sources | (cd "$PACELINE_ROOT" && xargs -0 cp --parents -Pt "$T/clone")
	# The programs under test are built already.
	mkdir -p clone/build tools
	ln -s "$(dirname "$(command -v trainctl)")" clone/build/bin
	printf '#!/bin/sh\nexit 0\n' >tools/make
	chmod +x tools/make
	quick_start >block
	[ "$(wc -l <block)" -ge 8 ]
	# No words that another shell reads otherwise: a comment ends a paste into zsh.
	not grep -q '#' block
	mkdir home
	cd clone
	unset XDG_STATE_HOME
	HOME=$T/home RUNTIME_DIRECTORY=$T/run PATH=$T/tools:$PATH run -0 --separate-stderr bash -eu "$T/block"
	echo "$output"
	[[ $output == *"summary job=shop state=done "*" samples="*" auc=0.8"* ]]
	[[ $output == *"auc auc=0.8"*" n=4000"* ]]
	[ -s try/shop.safetensors ]
	grep -q '<svg' try/report.html
	# Everything that it made is in the clone and in the home.
	[ -d "$T/home/.local/state/paceline/shop" ]
}

@test "its scripts say what they take, and do nothing then" {
	cd "$PACELINE_ROOT"
	local script
	for script in scripts/demo scripts/examples/make-shop; do
		run -0 "$script" --help
		[[ ${lines[0]} == *"${script##*/}"* ]]
		run -64 "$script" --nothing
		[[ ${lines[0]} == *"${script##*/}"* ]]
	done
}

@test "by hand: the lines that are typed, pasted at once, print what stands below them" {
	awk '/^## / { on = $0 == "## By hand" } on && /^    / { print substr($0, 5) }' "$PACELINE_ROOT/README.md" >shown
	sed -n 's/^\$ //p' shown >typed
	[ "$(wc -l <typed)" -ge 4 ]
	echo 'kill $!' >>typed
	run --separate-stderr timeout 300 bash typed
	echo "$output"
	# shellcheck disable=SC2053
	[[ $output == $(grep -v '^\$ ' shown | sed 's/\.\.\./*/g') ]]
}

@test "other blocks are commands, without words beside them" {
	awk '/^```/ { off = !off } !off && /^    [^$ ]/ { print substr($0, 5) }' "$PACELINE_ROOT/README.md" |
		grep -v '^\(paceline\|ok\|shard\|batch\|total\|action\)\( \|$\)' >commands
	[ "$(wc -l <commands)" -ge 5 ]
	bash -n commands
	not grep -E '[^ ]  +[^ ]' commands
}

@test "job.sh: a whole job without trainctl; whoever is killed comes back, and each row counts as often as it should" {
	start job "$PACELINE_ROOT/scripts/examples/job.sh" by-hand
	JOB_PID=$PID
	wait_for 'grep -q "^action kind=adjust-bs id=w1 " job.out && [ -d by-hand/cut/3 ]'
	# It creeps meanwhile.
	for node in w0 w1 w2; do echo 'drag speed=600' >"by-hand/$node.drag"; done
	for node in 'worker --id w0' ps-server shardd bpt-monitor 'worker --id w1'; do
		pkill -9 -P "$JOB_PID" -f "^$node "
		wait_for 'pgrep -P "$JOB_PID" -f "^'"$node"' "'
		cuts=$(ls by-hand/cut | wc -l)
		wait_for '[ "$(ls by-hand/cut | wc -l)" -gt '"$cuts"' ]'
	done
	rm by-hand/w?.drag
	ended "$JOB_PID"
	cat job.out job.err
	[ "$status" -eq 0 ]
	for node in w0 w1 ps0 shardd bpt-monitor; do grep -q "^job.sh: $node has died and comes back" job.err; done
	[[ $(grep '^stat ' job.out) == *" todo=0 doing=0 "*" samples-done=160000 "* ]]
	[[ $(tail -n 1 job.out) == "auc auc=0.79"*" n=4000" ]]
	# Nobody is left in its directory.
	wait_for '! readlink /proc/[0-9]*/cwd | grep -qxF "$(readlink -f by-hand)"'
}

@test "the demo: who ends it early finds nothing left" {
	TMPDIR=$T start demo "$PACELINE_ROOT/scripts/demo"
	local demo=$PID
	wait_for 'compgen -G "$T/paceline-demo.*/run-plain/ps0.sock" >found'
	kill "$demo"
	ended "$demo"
	[ "$status" -eq 143 ]
	not compgen -G "$T/paceline-demo.*"
	not pgrep -f "$T/paceline-demo"
	not grep -i 'no such file' demo.err
}
