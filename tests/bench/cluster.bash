# An emulated cluster for benches: a job whose workers are paced by straggle(1) (a sleep takes no
# core, so two cores show what many machines would do), and the oracle that it is held against.
# Sourced; PATH must hold the programs. Everything lies in $T.
. "$(dirname "${BASH_SOURCE[0]}")/../environment.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../files.bash"

cluster_start() {
	T=$(mktemp -d "${TMPDIR:-/tmp}/paceline.XXXXXX")
	trap 'cluster_stop' EXIT
	trap 'exit 130' INT TERM
}

cluster_stop() {
	[ -z "${PACELINE_KEEP-}" ] || { echo "kept: $T" >&2; return; }
	local pid
	for pid in $(jobs -p); do kill "$pid" 2>/dev/null || true; done
	pkill -9 -f "$T/" 2>/dev/null || true
	rm -rf "$T"
}

cluster_data() { # ROWS: a label, a number, a category
	awk -v rows="$1" 'BEGIN { srand(2); print "y,a,b"
		for (i = 0; i < rows; i++) { a = rand()
			printf "%d,%.4f,k%d\n", rand() < a, a, rand() * 100 } }' >"$T/data.csv"
}

# A job to its end under a drag schedule; $T/NAME.summary, NAME.rows, NAME.drag, NAME.log are left.
cluster_run() { # NAME "STRAGGLE-WORDS" KEY=VALUE...
	local name=$1 drag=$2 pid failed=
	shift 2
	mkdir "$T/$name.drags"
	printf '%s\n' "JOB=$name" "DATA=$T/data.csv" FORMAT=csv LABEL=y DENSE=a SPARSE=b MODEL=lr \
		"DRAG=$T/$name.drags" "$@" >"$T/$name.env"
	# shellcheck disable=SC2086 # the words of a command line
	straggle --dir "$T/$name.drags" $drag >"$T/$name.drag" 2>"$T/$name.drag.err" &
	pid=$!
	until [ -s "$T/$name.drag" ]; do
		kill -0 $pid 2>/dev/null || break
		sleep 0.01
	done
	trainctl run "$T/$name.env" --run-dir "$T/$name" --rows 0.25 >"$T/$name.out" \
		2>"$T/$name.err" || failed=1
	kill $pid 2>/dev/null || true
	wait $pid 2>/dev/null || true
	[ -z "$failed" ] || {
		cat "$T/$name.err" >&2
		return 1
	}
	grep '^summary' "$T/$name.out" >"$T/$name.summary"
	cp "$T/$name/state/job.log" "$T/$name.log"
	grep '^row' "$T/$name.log" >"$T/$name.rows"
}

# Side by side, so many at once: cluster_beside COMMAND..., cluster_queue NAME ... (a cluster_run), then cluster_wait.
CLUSTER_JOBS=${CLUSTER_JOBS:-5}
cluster_beside() {
	while [ "$(jobs -rp | wc -l)" -ge "$CLUSTER_JOBS" ]; do wait -n; done
	(
		trap - EXIT
		"$@"
	) &
}
cluster_queue() { cluster_beside cluster_run "$@"; }
cluster_wait() {
	wait
}

cluster_field() { # NAME KEY: of the summary
	tr ' ' '\n' <"$T/$1.summary" | sed -n "s/^$2=//p"
}

# What an oracle would have done of the same, in the same time, is 1. It knows every delay at every
# moment and cuts each batch so that all workers end together: the least z for which
# sum of pace * (z - delay) over those with delay < z is the batch. No sizes can be better: all
# machines are always busy. Delays that a restart cures (life=) don't exist for it.
cluster_of_bound() { # NAME BATCH SKIP-SECONDS (until then it is not steady)
	cat "$T/$1.drag" "$T/$1.rows" | awk -v batch="$2" -v skip="$3" '
	function rate(  low, high, z, sum, i, k) {
		high = 1e6
		for (k = 0; k < 60; k++) {
			z = (low + high) / 2
			sum = 0
			for (i in pace) if (z > delay[i]) sum += pace[i] * (z - delay[i])
			if (sum < batch) low = z; else high = z
		}
		return batch / high
	}
	function obey(i) {
		delay[who[i]] = wait[i]
		if (speed[i]) pace[who[i]] = speed[i]
	}
	{
		delete v
		for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
	}
	($1 == "on" || $1 == "off") && !("life" in v) {
		when[++n] = v["epoch"]; who[n] = v["id"]; wait[n] = v["delay"] + 0; speed[n] = v["speed"] + 0
	}
	$1 == "row" { at[++rows] = v["at"]; did[rows] = v["samples-done"]; all = v["samples"] }
	END {
		for (first = 1; first < rows && at[first] < at[1] + skip;) first++
		for (last = rows; last > first && did[last] > 0.97 * all;) last--
		if (last <= first) { print "nan"; exit }
		t = at[first]; k = 1
		for (; k <= n && when[k] <= t; k++) obey(k)
		while (t < at[last]) {
			next_at = k <= n && when[k] < at[last] ? when[k] : at[last]
			could += rate() * (next_at - t)
			t = next_at
			for (; k <= n && when[k] <= t; k++) obey(k)
		}
		printf "%.3f\n", (did[last] - did[first]) / could
	}'
}

# Whether this machine can be several hosts (cluster/hosts.bash, sourced), for a bench that needs them for a part only.
cluster_can_hosts() {
	local program
	for program in fabricd ssh mpirun; do
		command -v $program >/dev/null || return 1
	done
	(
		T=$T/try
		mkdir "$T"
		hosts_up -n 1
		hosts_down
	) >/dev/null 2>&1
}
