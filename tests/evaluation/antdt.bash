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

# Figs 10 and 11: intensity 0.8; the text says how much shorter AntDT-ND's time is than each rival's. Without a barrier
# and with equal parts, the job is as long as the slowest worker with its twentieth: a job of its own here.
for kind in workers server; do
	sim $kind-backup < <(antdt bsp none "$(slow_$kind 0.8)" | sed '1s/$/ backup=1/')
	sim $kind-lb < <(antdt bsp lb-bsp "$(slow_$kind 0.8)")
done
row AntDT-Fig-10 0.76 - "slow workers, AntDT-ND's of Backup Workers' (one)" workers-0.8-nd / workers-backup
row AntDT-Fig-10 0.56 - "slow workers, of LB-BSP's" workers-0.8-nd / workers-lb
row AntDT-Fig-10 0.49 0.51 "slow workers, of BSP's" workers-0.8-nd / workers-0.8-bsp
row AntDT-Fig-10 0.34 - "a slow server, of Backup Workers'" server-0.8-nd / server-backup
row AntDT-Fig-10 0.49 - "a slow server, of LB-BSP's" server-0.8-nd / server-lb
row AntDT-Fig-10 0.39 0.44 "a slow server, of BSP's" server-0.8-nd / server-0.8-bsp

sim asp-even < <(antdt asp none "transient intensity=0.8" "persistent nodes=w0 intensity=0.8" |
	sed '1s/workers=20/workers=1/; 1s/samples=45000000/samples=2250000/; 1s/batch=81920/batch=4096/')
sim asp-dds antdt_16 < <(antdt asp none "$(slow_workers 0.8)")
sim asp-nd < <(antdt asp antdt-nd "$(slow_workers 0.8)")
row AntDT-Fig-11 0.86 0.95 "slow workers, AntDT-ND's of ASP-DDS'" asp-nd / asp-dds
row AntDT-Fig-11 0.24 0.43 "slow workers, of ASP's with equal parts" asp-nd / asp-even

# Fig. 15: ResNet-101, one epoch of ImageNet, 768 images an iteration, 4 V100 and 4 P100. Three numbers are not given, and
# the three times of the paper say them: DDP's that a P100 does 126.4 images a second (96 of them in an iteration),
# AntDT-DD's that a V100 does 225 (all are busy all the time), LB-BSP's that 115 images fit. So this row shows only
# that our solvers come as far with them.
antdt_15() { # SOLUTION
	echo "job workers=8 hosts=8 samples=1281167 batch=768 sync=allreduce solution=$1 profile=1 every=60 short=300 long=600"
	echo "cost message=0.0002 commit=0.001"
	echo "device nodes=w0,w1,w2,w3 speed=225 saturation=32 memory=115 type=v100"
	echo "device nodes=w4,w5,w6,w7 speed=126.4 saturation=32 memory=115 type=p100"
}
for s in none lb-bsp antdt-dd; do sim dd-$s < <(antdt_15 $s); done
row AntDT-Fig-15 1266 - "DDP, s" dd-none
row AntDT-Fig-15 1020 - "LB-BSP, s" dd-lb-bsp
row AntDT-Fig-15 912 - "AntDT-DD, s" dd-antdt-dd
row AntDT-Fig-15 0.72 0.70 "AntDT-DD's of DDP's" dd-antdt-dd / dd-none
row AntDT-Fig-15 0.89 0.82 "AntDT-DD's of LB-BSP's" dd-antdt-dd / dd-lb-bsp

row AntDT-Fig-16 1.00 - "correlation of the shards that a worker took with its speed" asp-dds = correlation

# Fig. 17: a worker is killed in the middle of the job, what it takes to start left out. A worker of the paper holds a
# shard (100 batches), one of the kit four batches.
antdt_17() { # AHEAD EVENT...
	antdt bsp none "cost start=0" "${@:2}" | sed "1s/epochs=3/epochs=1 ahead=$1/"
}
for ahead in 4 100; do
	sim kill-$ahead-none < <(antdt_17 $ahead)
	sim kill-$ahead < <(antdt_17 $ahead "event kind=kill id=w3 at=500")
done
row AntDT-Fig-17 120 - "a shard in hand: the job takes longer by, s" kill-100 - kill-100-none
row AntDT-Fig-17 - - "four batches in hand, s" kill-4 - kill-4-none
