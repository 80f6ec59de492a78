# AntDT: XDeepFM on Criteo, 45 M rows three times, 20 workers and 8 servers, 81,920 rows an iteration; delays as its
# VII-A4 says, windows and lambda as VII-A5. What it does not say:
# - a batch of 4,096 rows: 2.08 s, which is the mean of BSP's eight job times in Table III, less the mean delay
#   (4 s times the mean intensity), for each of 1,649 iterations. All other cells are then foretold.
# - a start: 120 s, as DLRover, of the same authors' cluster, has it (20 s for the pod, 100 s until it trains)
antdt() { # SYNC SOLUTION PATTERN...
	echo "job workers=20 servers=8 samples=45000000 epochs=3 batch=81920 shard=409600 sync=$1 solution=$2 report=10" \
		"every=300 short=300 long=600 lambda=1.5"
	echo "cost sample=0.000508 start=120 start-server=120 message=0.0002 commit=0.001"
	shift 2
	printf '%s\n' "$@"
}

slow_workers() { echo "transient intensity=$1"; echo "persistent nodes=w3 life=0 intensity=$1"; }
slow_server() { echo "server nodes=ps1 life=0 intensity=$1"; }

antdt_3() { # INTENSITY WORKERS:BSP,ND SERVER:BSP,ND BENCH-WORKERS BENCH-SERVER
	local kind x=$1
	for kind in workers server; do
		sim $kind-$x-bsp < <(antdt bsp none "$(slow_$kind $x)")
		sim $kind-$x-nd < <(antdt bsp antdt-nd "$(slow_$kind $x)")
	done
	row AntDT-Table-III $2 - "slow workers, intensity $x, BSP, s" workers-$x-bsp
	row AntDT-Table-III $3 - "the same, AntDT-ND, s" workers-$x-nd
	row AntDT-Table-III "$(awk "BEGIN { printf \"%.2f\", $3 / $2 }")" $6 "the same, of BSP's" workers-$x-nd / workers-$x-bsp
	row AntDT-Table-III $4 - "a slow server, intensity $x, BSP, s" server-$x-bsp
	row AntDT-Table-III $5 - "the same, AntDT-ND, s" server-$x-nd
	row AntDT-Table-III "$(awk "BEGIN { printf \"%.2f\", $5 / $4 }")" $7 "the same, of BSP's" server-$x-nd / server-$x-bsp
}
antdt_3 0.1 4312 3745 4627 3636 1.00 0.87
antdt_3 0.3 4832 3790 6087 3863 0.77 0.69
antdt_3 0.5 6004 3859 7365 3944 0.61 0.56
antdt_3 0.8 8144 3982 8440 4064 0.51 0.44

antdt_16() { # Fig. 16: what workers took against how fast they were, over the whole job
	awk '$1 == "series" && $2 == "role=worker" {
			for (i = 3; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
			if (v["samples"] > 0) { took[v["id"]] = v["samples"]; speed[v["id"]] = v["batches"] / v["time-sum"] }
		}
		$1 == "summary" {
			for (w in took) { n++; a += took[w]; b += speed[w] }
			for (w in took) { x = took[w] - a / n; y = speed[w] - b / n; xy += x * y; xx += x * x; yy += y * y }
			print $0, "correlation=" xy / sqrt(xx * yy)
		}'
}

# Figs 10 and 11: intensity 0.8; the text says how much shorter AntDT-ND's time is than each rival's. It does not say how
# many gradients Backup Workers drop; with four of 20 its job takes as long as there (3,982 / 0.76 s). Without a barrier
# and with equal parts, the job is as long as the slowest worker with its twentieth: a job of its own here.
for kind in workers server; do
	sim $kind-backup < <(antdt bsp none "$(slow_$kind 0.8)" | sed '1s/$/ backup=4/')
	sim $kind-lb < <(antdt bsp lb-bsp "$(slow_$kind 0.8)")
done
row AntDT-Fig-10 0.76 - "slow workers, AntDT-ND's of Backup Workers' (four)" workers-0.8-nd / workers-backup
row AntDT-Fig-10 0.56 - "slow workers, of LB-BSP's" workers-0.8-nd / workers-lb
row AntDT-Fig-10 0.49 0.51 "slow workers, of BSP's" workers-0.8-nd / workers-0.8-bsp
row AntDT-Fig-10 0.34 - "a slow server, of Backup Workers'" server-0.8-nd / server-backup
row AntDT-Fig-10 0.49 - "a slow server, of LB-BSP's" server-0.8-nd / server-lb
row AntDT-Fig-10 0.39 0.44 "a slow server, of BSP's" server-0.8-nd / server-0.8-bsp

sim asp-even < <(antdt asp none "transient intensity=0.8" "persistent nodes=w0 intensity=0.8" |
	sed '1s/workers=20/workers=1/; 1s/samples=45000000/samples=2250000/; 1s/batch=81920/batch=4096/')
sim asp-dds antdt_16 < <(antdt asp none "$(slow_workers 0.8)")
sim asp-nd < <(antdt asp antdt-nd "$(slow_workers 0.8)")
row AntDT-Fig-11 0.86 0.94 "slow workers, AntDT-ND's of ASP-DDS'" asp-nd / asp-dds
row AntDT-Fig-11 0.24 0.46 "slow workers, of ASP's with equal parts" asp-nd / asp-even

# Its slow server. In the paper one of a server's threads sleeps, and the others go on meanwhile; a server of the kit
# takes one push after the other. ASP took a little longer than BSP there, so here 20 pushes sleep as long as an
# iteration of BSP takes with the slow server: 5.28 s.
asp_server="server nodes=ps1 life=0 sleep=0.33 intensity=0.8"
sim asp-server < <(antdt asp none "$asp_server")
sim asp-server-nd < <(antdt asp antdt-nd "$asp_server")
row AntDT-Fig-11 0.50 0.46 "a slow server, of ASP's" asp-server-nd / asp-server

# Fig. 15: ResNet-101, one epoch of ImageNet, 768 images an iteration, 4 V100 and 4 P100. Three numbers are not given, and
# the three times of the paper say them: DDP's that a P100 does 126.4 images a second (96 of them in an iteration),
# AntDT-DD's that a V100 does 225 (all are busy all the time), LB-BSP's that 115 images fit (0.95 of 122). So this row shows only
# that our solvers come as far with them.
antdt_15() { # SOLUTION
	echo "job workers=8 hosts=8 samples=1281167 batch=768 sync=allreduce solution=$1 profile=1 every=60 short=300 long=600"
	echo "cost message=0.0002 commit=0.001"
	echo "device nodes=w0,w1,w2,w3 speed=225 saturation=32 memory=122 type=v100"
	echo "device nodes=w4,w5,w6,w7 speed=126.4 saturation=32 memory=122 type=p100"
}
for s in none lb-bsp antdt-dd; do sim dd-$s < <(antdt_15 $s); done
row AntDT-Fig-15 1266 - "DDP, s" dd-none
row AntDT-Fig-15 1020 - "LB-BSP, s" dd-lb-bsp
row AntDT-Fig-15 912 - "AntDT-DD, s" dd-antdt-dd
row AntDT-Fig-15 0.72 0.70 "AntDT-DD's of DDP's" dd-antdt-dd / dd-none
row AntDT-Fig-15 0.89 0.83 "AntDT-DD's of LB-BSP's" dd-antdt-dd / dd-lb-bsp
row AntDT-Fig-15 0.67 0.67 "MobileNets (not in the figure), of DDP's" -
row AntDT-Fig-15 0.80 0.66 "the same, of LB-BSP's" -

row AntDT-Fig-16 1.00 - "correlation of the shards that a worker took with its speed" asp-dds = correlation

# Fig. 17: a worker is killed in the middle of the job, what it takes to start left out. A worker of the paper holds a
# shard (100 batches), one of the kit four batches. The rival: all go back to the checkpoint of 600 s, at one of five
# moments before the next one, and train again what they had trained since. Writing checkpoints costs nothing here.
antdt_17() { # AHEAD EVENT...
	antdt bsp none "cost start=0" "${@:2}" | sed "1s/epochs=3/epochs=1 ahead=$1/"
}
for ahead in 4 100; do
	sim kill-$ahead-none < <(antdt_17 $ahead)
	sim kill-$ahead < <(antdt_17 $ahead "event kind=kill id=w3 at=500")
done
row AntDT-Fig-17 120 - "a shard in hand: the job takes longer by, s" kill-100 - kill-100-none
antdt_17_back() { # SEED
	local at lost samples=()
	for at in 600 $((570 + 60 * $1)); do
		samples+=($(antdt_17 4 | trainsim -s --until $at | plrec tsv samples))
	done
	lost=$((samples[1] - samples[0]))
	antdt_17 4 | sed "1s/samples=45000000/samples=$((45000000 + lost))/" | trainsim -s
}
made kill-back antdt_17_back
row AntDT-Fig-17 - - "four batches in hand, s" kill-4 - kill-4-none
row AntDT-Fig-17 1020 - "all go back to a checkpoint, one every 5 minutes, s" kill-back - kill-4-none

# Fig. 18, measured by antdt-overhead with real processes.
row AntDT-Fig-18 0.46 0.08 "30 workers, percent of the job" -
row AntDT-Fig-18 "less than 0.44" 0.10 "60 workers" -
row AntDT-Fig-18 "less than 0.44" 0.15 "90 workers" -

# Fig. 19: jobs in production, of which some straggle; the paper doesn't say how many, nor how much. Here those of Fig. 10
# and 11 with slow workers are such a part of all that BSP's mean is 1.265 of AntDT-ND's; the other means follow from it.
antdt_19() { # SEED
	local run times=
	antdt bsp none >"$T/.clean.$1"
	times=$(trainsim -s <"$T/.clean.$1" | plrec tsv jct)
	times="$times $(sed '1s/$/ backup=4/' "$T/.clean.$1" | trainsim -s | plrec tsv jct)"
	for run in workers-0.8-nd workers-0.8-bsp workers-backup workers-lb asp-nd asp-even asp-dds; do
		times="$times $(trainsim -s --seed $1 <"$T/$run" | plrec tsv jct)"
	done
	echo "$times" | awk '{
		part = (0.265 * $1) / ($4 - $1 - 1.265 * ($3 - $1))
		for (i = 3; i <= NF; i++) { clean = i == 5 ? $2 : $1; mean[i] = clean + part * ($i - clean) }
		printf "summary state=done part=%.3f backup=%.4f lb=%.4f even=%.4f dds=%.4f\n", 100 * part, mean[3] / mean[5], \
			mean[3] / mean[6], mean[7] / mean[8], mean[7] / mean[9]
	}'
}
made production antdt_19
row AntDT-Fig-19 0.79 - "AntDT-ND's mean of BSP's" -
row AntDT-Fig-19 - - "so many jobs straggle then, percent" production = part
row AntDT-Fig-19 0.91 - "of Backup Workers'" production = backup
row AntDT-Fig-19 0.93 - "of LB-BSP's" production = lb
row AntDT-Fig-19 0.71 - "of ASP's with equal parts" production = even
row AntDT-Fig-19 0.85 - "of ASP-DDS'" production = dds

# The job of 230 workers and 50 servers, 27.8 h with BSP and 5.4 h with AntDT-ND: one worker that is so slow from the
# beginning that BSP takes 27.8 h for the 9,000 iterations of 2.08 s that 5.2 h are.
antdt_230() { # SOLUTION
	antdt bsp $1 "persistent nodes=w3 life=0 sleep=9.04 intensity=1" | sed '1s/workers=20 servers=8/workers=230 servers=50/
		1s/samples=45000000 epochs=3 batch=81920/samples=8478720000 batch=942080/'
}
sim big < <(antdt_230 none)
sim big-nd < <(antdt_230 antdt-nd)
row AntDT-Fig-19 0.19 - "230 workers, 50 servers, of BSP's" big-nd / big

# Numbers of what-if analysis (Lin and others, OSDI '25) from the records of trainctl advise, which simulates a job again
# without its stragglers: the log of Table III's job with slow workers, intensity 0.8.
what_if() { # SEED
	local dir="$T/.advise.$1"
	mkdir -p "$dir"
	printf '%s\n' JOB=sim DATA=rows.csv WORKERS=20 SERVERS=8 BATCH=81920 SYNC=bsp SOLUTION=none >"$dir/job.env"
	trainsim --seed $1 <"$T/workers-0.8-bsp" >"$dir/job.log"
	trainctl advise --state-dir "$dir" --records | awk '
		{ split("", v); for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
		$1 == "advice" { whole = v["simulated"]; ideal = v["ideal"] }
		$1 == "suspect" && v["kind"] == "worker" && v["saves"] > worst { worst = v["saves"] }
		END { printf "summary state=done slowdown=%.4f worst=%.4f\n", whole / ideal, worst / (whole - ideal) }'
}
made what-if what_if
row What-if - - "S: the job's time, of the ideal job's" what-if = slowdown
row What-if - - "M_W: how much of what is lost the worst worker alone costs" what-if = worst
