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
	awk '{ sum[$2] += substr($4, 7) } $3 == "id=w31" { print $1, $2, "id=w0 speed=" sum[$2] }' "$T/.trace32.$seed" \
		>"$T/.together.$seed"
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
# No sizes can do better than one worker with the speed of all together.
sim lb-oracle < <(lb_job bsp none | sed '1s/workers=32/workers=1/; s/trace32/together/')
row LB-BSP-Fig-9 0.58 "0.48 to 0.60" "LB-BSP, memoryless, of BSP's job time" lb-last / lb-bsp
row LB-BSP-Fig-9 0.42 - "the paper's LB-BSP (NARX) beside our memoryless one" lb-last / lb-bsp
row LB-BSP-Fig-9 - - "the best sizes, all speeds known in advance, of BSP's" lb-oracle / lb-bsp
row LB-BSP-Fig-9 - - "redundant execution, 2 of 34, of BSP's" lb-backup / lb-bsp
row LB-BSP-Fig-9 - - "SSP, 5 ahead, of BSP's" lb-ssp / lb-bsp

# Fig. 8: Inception-V3, four kinds of GPUs that begin with 32 images each. Of their speeds the text gives two (57 images
# more take a V100 0.5 s, 26 fewer a K520 2 s less); M60 and K80 follow from the sizes at which the paper's batches take
# equally long. So only when sizes come there is foretold.
lb_sizes() { # the sizes after 150 iterations, and from which one on they were within one of those
	awk '{ split("", v); for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
		$1 == "row" { at = v["iteration"] }
		$1 == "series" && v["role"] == "worker" && at < 150 { size[v["id"], at] = v["size"]; last = at }
		$1 == "summary" {
			for (n = last; n > 0 && near; n--)
				for (w = 0; w < 4 && near; w++) {
					d = size["w" w, n] - size["w" w, last]
					if (("w" w, n) in size && (d > 1 || d < -1)) near = 0
				}
			print $0, "settled=" n + 2, "v100=" size["w0", last], "m60=" size["w1", last], \
				"k80=" size["w2", last], "k520=" size["w3", last]
		}' near=1
}
sim lb-8 lb_sizes <<-'END'
	job workers=4 servers=1 samples=25600 batch=128 sync=bsp solution=lb-bsp-gpu
	cost message=0.0002 commit=0.001
	device nodes=w0 speed=113.6 launch=0.1
	device nodes=w1 speed=26.8 launch=0.1
	device nodes=w2 speed=15.3 launch=0.1
	device nodes=w3 speed=13 launch=0.42
END
row LB-BSP-Fig-8 89 - "V100, images" lb-8 = v100
row LB-BSP-Fig-8 21 - "M60" lb-8 = m60
row LB-BSP-Fig-8 12 - "K80" lb-8 = k80
row LB-BSP-Fig-8 6 - "K520" lb-8 = k520
row LB-BSP-Fig-8 30 - "iteration from which on sizes only change by one" lb-8 = settled
