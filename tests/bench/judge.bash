# judge.bash: what benches must reach. Sourced by a bench before it does anything: it runs the bench once more,
# lets through what that prints, and exits with 1 and a line `MISSED: ...` on standard error for each figure that
# is worse than here. The figures are those of doc/benchmarks.md, with room for another machine.
#
# A line: NAME KEY RELATION FULL SHORT [OTHER=VALUE]...: in records `bench name=NAME` in which OTHER is VALUE,
# KEY is at least (>) or at most (<) FULL; SHORT with --short, beside whatever else the machine does. -: any.
. "${BASH_SOURCE[0]%/*}/../usage.bash"
[ -z "${PACELINE_JUDGED-}" ] || return 0
. "${BASH_SOURCE[0]%/*}/../environment.bash"
judge_limits() {
	cat <<-'L'
		advise-real apart < 5 20
		agent-cost least-of-target < 1 - compute-us=1000
		allreduce-host faster-than-mpi > 1.5 -
		allreduce-host faster-than-tuned > 1.5 -
		allreduce-late faster > 1.2 0.8 compute=C2
		allreduce-late dropped-percent > 5 2 compute=C2
		allreduce-late faster > 0.95 - compute=none
		allreduce-late-loss faster > 1.2 - compute=C2 rows=4
		allreduce-overlap hidden > 0.5 - links=equal rounds=ring
		allreduce-overlap ahead-hidden > 0.8 0
		antdt-asp ratio-even > 2 0.9 solution=antdt-nd
		antdt-asp ratio-dds > 1 0.7 solution=antdt-nd kind=workers
		antdt-asp ratio-dds > 1.9 0.7 solution=antdt-nd kind=server
		antdt-dd of-antdt-dd > 1.25 0.9 solution=ddp devices=chosen
		antdt-dd of-antdt-dd > 1.1 0.9 solution=lb-bsp devices=chosen
		antdt-dd of-antdt-dd > 1.05 - solution=ddp devices=Sandybridge
		antdt-dd of-antdt-dd > 1.2 - solution=ddp devices=Nehalem
		antdt-dd-hosts of-antdt-dd > 1.2 - solution=even
		antdt-dd-hosts of-antdt-dd > 1.1 - solution=lb-bsp
		antdt-overhead sum-percent < 0.46 5
		antdt-restart again < 0 0 fault=server-restarted
		antdt-restart again < 0.25 0.25 fault=worker-killed
		antdt-restart again < 0.25 0.25 fault=worker-restarted
		antdt-restart iterations-lost < 5 - fault=server-restarted
		antdt-restart iterations-lost < 5 - fault=worker-killed
		antdt-restart iterations-lost < 5 - fault=worker-restarted
		antdt-restart rollbacks < 0 0 fault=server-restarted
		antdt-restart rollbacks < 0 0 fault=worker-killed
		antdt-restart rollbacks < 0 0 fault=worker-restarted
		antdt-stragglers of-bound > 0.8 - solution=pace kind=workers
		antdt-stragglers of-bound > 0.8 - solution=antdt-nd kind=workers
		antdt-stragglers of-bsp < 0.95 1.1 solution=antdt-nd
		antdt-stragglers of-bsp < 0.65 1.1 solution=antdt-nd intensity=0.8
		brain-cores less > 0.5 - solution=res-plan slow=worker
		brain-cores less > 0.25 - solution=res-plan slow=server
		card roof > 0.7 - kernel=rows_gather
		card roof > 0.7 - kernel=rows_gradient
		card ratio > 1 -
		ckpt-save faster-than-pigz > 3 -
		ckpt-save restore-of-slower > 0.7 -
		ddp-straggler faster > 1 -
		fabric-allreduce by-mpi < 1 - link=none
		fabric-allreduce of-bound > 0.8 - link=1gbit
		fabric-job by-plain < 1.03 - links=equal
		fabric-job by-plain < 1.03 - links=one-host
		fabric-job by-plain < 0.8 1.2 links=one-slow sync=allreduce
		fabric-job by-plain < 0.8 1 links=slow-server
		fabric-job control < 3 3
		fabric-job-updates for-100 < 3 20
		fabric-relay of-mpi > 0.8 0.2 link=none
		fabric-relay of-link > 0.8 0.4 link=1gbit
		fabric-relay of-them < 2 20
		fabric-relay idle-percent < 0.5 5
		fabric-rounds by-ring < 1.05 - links=equal
		fabric-rounds by-ring < 0.85 - links=one-slow
		fabric-rounds by-tuned < 0.85 - links=one-slow
		fabric-rounds by-ring < 0.85 - links=falls
		fabric-rounds seen < 1.5 - links=falls
		fabric-rounds rate-behind/ring-behind < 1.2 - links=falls-for-10
		fabric-rounds by-ring < 0.85 - links=mixed
		fabric-rounds by-tuned < 0.85 - links=mixed
		fabric-rows wire-by-touched < 1.1 1.3
		fabric-table2 of-paper > 1 1
		fabric-table2 s-ratio > 1.2 1.15 network=N1
		fabric-table2 s-ratio > 1.4 1.4 network=N2
		fabric-table2 s-ratio > 1.5 1.5 network=N3
		fabric-table2-best of-paper > 1 1 rows=4 compute=C1
		fabric-table2-best of-paper > 0.8 - rows=4 compute=C2
		fabric-table2-best of-paper > 1 - rows=4 compute=C2 network=N2
		fabric-table2-best of-paper > 1 - rows=4 compute=C3
		fabric-table2-best of-paper > 1.4 - model=lda
		fabric-table2-best over-overlap > 1.1 1.4
		fabric-table2-best over-overlap > 1.4 1.4 data=adult
		fabric-table2-best ratio > 1.5 1.5
		fabric-table2-safe less > 3.5 3.5 way=merged bound=600
		fabric-table2-safe less > 3.5 3.5 way=sums bound=600
		fabric-table2-safe longer-percent < 15 15 bound=120
		fabric-table2-safe longer-percent < 15 15 bound=600
		fabric-table2-slow a30 < 3 3
		fabric-table2-slow s < 3 3
		fabric-table2-slow cut < 3 3
		lb-accuracy behind-bsp < 3 - scheme=lb
		lb-accuracy behind-bsp > 5 - scheme=ssp:5 lr=0.1
		lb-barrier of-bsp < 0.9 - predict=mix
		lb-barrier over-oracle < 1.4 - predict=mix
		lb-contention rmse-of-ema < 0.95 - model=mix load=others
		lead-schedule plan-ms < 1 10 workers=100
		lead-schedule plan-ms < 10 60 workers=300
		lead-schedule event-ms < 1 10 workers=300
		linear-sklearn worse < 0.005 0.01
		lr-liblinear ratio > 2 -
		lr-liblinear csv-ratio > 2 -
		lr-liblinear best-c-ratio > 2 -
		lr-liblinear loss-ratio < 1 1
		lr-liblinear best-c-loss-ratio < 1.01 -
		model-torch ratio > 3 - model=lr
		model-torch ratio > 3 - model=svm
		model-torch ratio > 3 - model=linear
		model-torch ratio > 1.8 - model=softmax
		model-torch ratio > 3 - model=fm
		model-torch ratio > 2 - model=wdl hidden=64-32
		model-torch ratio > 1.15 - model=wdl hidden=400-400
		model-torch ratio > 1.7 - model=deepfm hidden=64-32
		model-torch ratio > 1.15 - model=deepfm hidden=400-400
		model-torch ratio > 2 - model=dcn hidden=64-32
		model-torch ratio > 1.2 - model=dcn hidden=400-400
		model-torch ratio > 2 - model=xdeepfm
		model-torch ratio > 1 - model=mlp
		model-torch ratio > 1 - model=conv
		move-rows slope < 1.5 1.5
		move-rows seconds/rows-sent < 3 - rows=16000000
		paceline-py p50-us < 1000 10000
		notices over-none < 1.15 - way=notice
		notices samples-again < 0 0 way=notice
		peers faster > 2.5 1 solution=pace straggler=one-4
		peers faster > 1.3 1 solution=pace straggler=two-2
		ps-growth longest/copy < 3 -
		ps-growth restart/longest > 3 1
		ps-growth seconds/sent < 3 -
		ps-pushpull over-one-process < 1.6 -
		ps-pushpull faster-than-mpi > 0.9 -
		ps-unit over-slowest-part < 1.2 3
		ranks ratio < 0.5 - hosts=1 parameters=25000000
		ranks ratio < 1 1.5 hosts=1
		ranks ratio < 0.9 - hosts=3 ranks=6
		ranks ratio < 1.7 - hosts=3 ranks=3
		ranks-accuracy alike < 1 -
		ranks-accuracy ledger > 1 -
		ranks-accuracy worse < 0.01 -
		ranks-change ledger > 1 -
		ranks-change over-noise < 2 -
		ranks-change repeated < 0 -
		ranks-iteration ratio < 1.3 - hosts=1
		ranks-iteration ratio < 1 - hosts=3
		ranks-kill again < 0 0
		ranks-kill ledger > 1 1
		ranks-kill repeated < 0 0
		ranks-kill seconds < 1 10
		ranks-state ratio < 0.5 1
		ranks-state load-ratio > 0.5 -
		ranks-straggler faster > 2 -
		row-cache ratio > 3 2 data=rows.csv
		row-cache ratio > 5 3 data=rows.tsv.gz
		row-cache ratio-batches > 3 2 data=rows.csv
		row-cache ratio-batches > 5 3 data=rows.tsv.gz
		scale lead < 1.3 - slopes=1
		scale supervisor < 1.3 - slopes=1
		sim-real error < 5 25
		sim-real error > -5 -25
		sim-scale slope < 0.4 1
		sim-scale mib < 4096 4096
		standby overhead-percent < 15 60
		standby of-on < 0.28 0.8 standby=30
		standby of-on < 0.05 - standby=600
		standby-death take-over < 1 10 standby=on
		standby-death take-over < 1 10 standby=8
		standby-death take-over < 1 10 standby=30
		standby-death take-over < 1 - standby=120
		standby-death take-over < 1 - standby=600
		standby-death death-percent < 3 - standby=on
		standby-death death-percent < 3 - standby=600
		worker-agent of-write < 2 10
		worker-agent report-us < 5 100 monitor=reads
		worker-agent report-us < 5 100 monitor=stopped
		worker-torch ratio > 1.2 -
		xfer-sched groups-ms < 0.5 10 updates=100
		xfer-sched groups-ms < 3 60 updates=500
		xfer-sched groups-ms < 10 200 updates=1000
		xfer-sched groups-ms < 300 - updates=10000
	L
}

set +e
PACELINE_JUDGED=1 "$0" "$@" | line_awk -v form="$([[ " $* " == *" --short "* ]] && echo 5 || echo 4)" '
	NR == FNR { limit[++limits] = $0; next }
	{ print; fflush() }
	$1 == "bench" {
		delete said
		for (i = 2; i <= NF; i++) { at = index($i, "="); said[substr($i, 1, at - 1)] = substr($i, at + 1) }
		for (l = 1; l <= limits; l++) {
			n = split(limit[l], word, " ")
			if (word[1] != said["name"] || !(word[2] in said) || word[form] == "-") continue
			for (k = 6; k <= n; k++) {
				split(word[k], other, "=")
				if (said[other[1]] != other[2]) break
			}
			if (k <= n) continue
			value = said[word[2]] + 0
			if (said[word[2]] !~ /^[-+]?[.]?[0-9]/ || (word[3] == ">" ? value < word[form] : value > word[form])) {
				missed = 1
				printf "MISSED: %s: %s=%s is not at %s %s\n", said["name"], word[2], said[word[2]],
					word[3] == ">" ? "least" : "most", word[form] >"/dev/stderr"
			}
		}
	}
	$1 == "bench" { seen = 1 }
	END { exit missed ? 1 : seen ? 0 : 3 }' <(judge_limits) -
judge_ends=("${PIPESTATUS[@]}")
[ "${judge_ends[0]}" = 0 ] || exit "${judge_ends[0]}"
[ "${judge_ends[1]}" != 3 ] || {
	echo "MISSED: ${0##*/}: it has printed no bench record" >&2
	exit 1
}
exit "${judge_ends[1]}"
