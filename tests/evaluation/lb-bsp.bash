# LB-BSP, Fig. 9 and Table 3: Cluster-B's 32 workers, ResNet-32 with 128 images each, 500 iterations. Google's trace,
# whose hour the paper gave to its machines, is replaced by a made one after what is published of it (lb-cluster-trace.awk
# of tests/bench; another one with each seed), a step of it every 0.64 s, which is an even batch of a machine that nobody
# else uses. Workers foretell by their last batch (memoryless); backup: 34 workers, of which the first 32 count.
lb_trace() { # SEED WORKERS
	awk -v seed=$1 -v workers=$2 -v n=2000 -f "$HERE/../bench/lb-cluster-trace.awk" |
		awk '{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
			printf "on at=%.2f id=%s speed=%s\n", v["k"] * 0.64, v["id"], v["speed"] }'
}
for seed in $SEEDS; do
	for n in 32 34; do lb_trace $seed $n >"$T/.trace$n.$seed"; done
done

lb_job() { # SYNC SOLUTION [WORKERS [BACKUP]]
	local n=${3:-32}
	echo "job workers=$n servers=1 samples=2048000 batch=$((128 * n)) sync=$1 solution=$2 backup=${4:-0}"
	echo "cost message=0.0002 commit=0.001"
	echo "replay file=$T/.trace$n.@SEED@"
}
sim lb-bsp < <(lb_job bsp none)
sim lb-ssp < <(lb_job ssp:5 none)
sim lb-backup < <(lb_job bsp none 34 2)
sim lb-last < <(lb_job bsp lb-bsp)
row lb-bsp 0.58 "0.48 to 0.60" "LB-BSP, memoryless, of BSP's job time" lb-last / lb-bsp
row lb-bsp 0.42 - "the paper's LB-BSP (NARX) beside our memoryless one" lb-last / lb-bsp
row lb-bsp - - "redundant execution, 2 of 34, of BSP's" lb-backup / lb-bsp
row lb-bsp - - "SSP, 5 ahead, of BSP's" lb-ssp / lb-bsp
