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
		grep -v '^\(paceline\|ok\|shard\|batch\|plan\|action\)\( \|$\)' >commands
	[ "$(wc -l <commands)" -ge 5 ]
	bash -n commands
	not grep -E '[^ ]  +[^ ]' commands
}
