# MLfabric, Table 2 and section 7: 30 workers on 15 hosts, 100 MB. What a batch takes is not in the paper: 100 ms. What the
# kit does is simulated by trainsim, 1,000 iterations of each cell and seed: ring; rates, a synchronous sum shared by the rates
# of the links; cut, the same with one round in flight, and late batches are cut. Every 5 s a link gets another rate, the
# smaller one of two that its port draws for its directions.
# What the kit does not have is simulated by the bench fabric-table2 (its head says how), 300 s of each cell and seed: a30,
# MLfabric-A with a delay of at most 30, whose server sends the model through distributors; a tree; replicas of its server.
mlfabric_job() { # WAY COMPUTE NETWORK
	local way="" slow
	case $1 in rates) way=" fabric=mlfabric" ;; cut) way=" fabric=mlfabric delay=1 late=1.5" ;; esac
	case $2 in C1) slow="p=0.1 sleep=0.1" ;; C2) slow="p=0.1 sleep=0.3" ;; C3) slow="p=0.04 sleep=0.1" ;; esac
	echo "job workers=30 hosts=15 samples=30000 batch=30 shard=30 sync=allreduce bytes=100000000$way"
	echo "cost sample=0.1"
	echo "transient on=0.1 every=0.1 intensity=1 $slow" # each batch draws whether it is slow
}
mlfabric_links() { # NETWORK SEED
	awk -v network=$1 -v seed=$2 'BEGIN {
		split("1 2.5 3.3 5 10", gbits, " ")
		split(network == "N1" ? "0 0 0 .1 .9" : network == "N2" ? "0 .1 .1 .1 .7" : ".5 0 0 0 .5", chance, " ")
		srand(seed)
		for (t = 0; t < 4000; t += 5)
			for (h = 0; h < 15; h++) {
				least = 10
				for (way = 0; way < 2; way++) {
					x = rand()
					for (i = 1; i < 5 && x >= chance[i]; i++) x -= chance[i]
					if (gbits[i] < least) least = gbits[i]
				}
				printf "link id=h%d at=%d rate=%.0f\n", h, t, least * 1.25e8
			}
	}'
}
mlfabric_sim() { # WAY COMPUTE NETWORK SEED
	{ mlfabric_job "${@:1:3}"; mlfabric_links $3 $4; } | trainsim -s --seed $4
}
for compute in C1 C2 C3; do
	for network in N1 N2 N3; do
		for way in ring rates cut; do made mlfabric-$way-$compute$network mlfabric_sim $way $compute $network; done
	done
done

ROOT=$(cd "$HERE/../.." && pwd)
${CC:-cc} -O2 -std=c17 -D_GNU_SOURCE -I"$ROOT/lib" -o "$T/table2" "$ROOT"/tests/bench/fabric-table2*.c \
	"$(dirname "$(command -v trainsim)")/../lib/paceline.a" \
	-Wl,--as-needed -lopenblas -lcsv -ljansson -lzstd -lz -lxxhash -lm
mlfabric() { # SEED
	OPENBLAS_NUM_THREADS=1 "$T/table2" 1@$(($1 - 1)) 300 | awk '
		{ for (i = 3; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } cell = v["compute"] v["network"] }
		$2 == "name=fabric-table2" {
			printf "%s", summary "summary state=done"; summary = ""
			printf " %s-a30=%f", cell, v["ring-ms"] / v["a30-ms"]
			if (cell == "C1N1") dropped = 100 * v["a30-dropped"]
			if (cell == "C1N2") a30 = v["a30-ms"]
			compute = 400 - 300 * 0.9 ^ 30 # the slowest of 30, C2
			if (cell == "C2N2") sums = (v["s-ms"] - compute) / (v["tree-ms"] - compute)
			summary = "\n"
		}
		$2 == "name=fabric-table2-slow" && cell == "C2N2" { slow_s = v["s"]; slow_tree = v["tree"] }
		$2 == "name=fabric-table2-lag" { lag[v["network"]] = v["a30-percent"] }
		$2 == "name=fabric-table2-safe" && v["network"] == "N1" {
			longer[v["way"], v["bound"]] = v["longer-percent"]; mb[v["way"], v["bound"]] = v["mb-per-update"]
			delete v["bound"]; delete v["keeps"]
		}
		END {
			printf " dropped=%f a30=%f sums=%f slow-s=%f slow-tree=%f lag=%f skewed=%f", dropped, a30, sums, \
				slow_s, slow_tree, lag["N2"], lag["skewed"]
			printf " ckpt30=%f chain=%f fewer=%f\n", longer["checkpoint", 30] / longer["sums", 30], longer["chain", ""] / longer["sums", 30], \
				100 / mb["sums", 600]
		}' | tr '\n' ' ' | sed 's/ summary state=done//g; s/$/\n/'
}
made mlfabric mlfabric
mlfabric_2() { # CELL PAPER BENCH
	row MLfabric-Table-2 $2 - "${1:0:2} ${1:2}: MLfabric-A, delay 30" mlfabric = $1-a30
	row MLfabric-Table-2 $2 $3 "the kit's rounds by rate, one in flight, late batches cut" mlfabric-ring-$1 / mlfabric-cut-$1
}
mlfabric_2 C1N1 1.74 2.55
mlfabric_2 C1N2 1.23 2.65
mlfabric_2 C1N3 1.42 2.01
mlfabric_2 C2N1 2.96 2.99
mlfabric_2 C2N2 2.00 2.84
mlfabric_2 C2N3 2.32 2.18
mlfabric_2 C3N1 1.90 2.49
mlfabric_2 C3N2 1.33 2.45
mlfabric_2 C3N3 1.42 2.03

row MLfabric-7.1 1300 - "30 updates, C1 N2: MLfabric-A, ms" mlfabric = a30
row MLfabric-7.1 1600 - "the ring, ms" mlfabric-ring-C1N2
row MLfabric-7.1 30 - "updates that MLfabric-A drops, C1 N1, percent" mlfabric = dropped
row MLfabric-7.1 7.6 - "longer when rates are known after 2 s, not 0.2, N2, percent" mlfabric = lag
row MLfabric-7.1 40 - "the same, one port in five at 1 Gbit/s" mlfabric = skewed
row MLfabric-7.1 1.30 1.03 "topics: passes with MLfabric-A, of the ring's" -
row MLfabric-7.1 0.76 1.54 "time with MLfabric-A, of the ring's" -
row MLfabric-7.1 0.13 0.41 "of one server's, each update by itself" -
row MLfabric-7.1 - 0.42 "time with the kit's rounds, of the ring's" -

row MLfabric-7.2 0.84 - "C2 N1: time of an iteration, of the ring's" mlfabric-rates-C2N1 / mlfabric-ring-C2N1
row MLfabric-7.2 "1.2 to 2" - "C1 N2, the same" mlfabric-rates-C1N2 / mlfabric-ring-C1N2
row MLfabric-7.2 "1.2 to 2" - "C1 N3, the same" mlfabric-rates-C1N3 / mlfabric-ring-C1N3
row MLfabric-7.2 0.82 - "C2 N2: its communication, of a tree's" mlfabric = sums
row MLfabric-7.2 4.1 - "messages over slow links, percent" mlfabric = slow-s
row MLfabric-7.2 9.0 - "with a tree" mlfabric = slow-tree

row MLfabric-7.3 6 - "a checkpoint every 30 updates costs, of what replication costs" mlfabric = ckpt30
row MLfabric-7.3 "up to 30" - "chain replication, the same" mlfabric = chain
row MLfabric-7.3 5.6 - "bytes to the replica with a bound of 600, so many times fewer" mlfabric = fewer

row MLfabric-7.4 30 0.27 "a schedule of 100 updates, ms" -
row MLfabric-7.4 440 2.0 "500" -
row MLfabric-7.4 1460 3.1 "1000" -
