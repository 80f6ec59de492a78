# MLfabric, Table 2 and section 7, by the simulator of the bench fabric-table2 (its head says what is simulated): 30 workers
# on 15 hosts, 100 MB, 300 s of each cell and seed. What a batch takes is not in the paper: 100 ms. Three designs here:
# a30 is MLfabric-A with a delay of at most 30; s shares a synchronous sum by the rates of the links; cut is s with one
# round in flight, and late batches are cut. s and cut are the kit's.
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
			printf " %s-cut=%f %s-s=%f", cell, v["ring-ms"] / v["cut-ms"], cell, v["s-ms"] / v["ring-ms"]
			if (cell == "C1N1") dropped = 100 * v["a30-dropped"]
			if (cell == "C1N2") { a30 = v["a30-ms"]; ring = v["ring-ms"] }
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
			printf " dropped=%f a30=%f ring=%f sums=%f slow-s=%f slow-tree=%f lag=%f skewed=%f", dropped, a30, ring, sums, \
				slow_s, slow_tree, lag["N2"], lag["skewed"]
			printf " ckpt30=%f chain=%f fewer=%f\n", longer["checkpoint", 30] / longer["sums", 30], longer["chain", ""] / longer["sums", 30], \
				100 / mb["sums", 600]
		}' | tr '\n' ' ' | sed 's/ summary state=done//g; s/$/\n/'
}
made mlfabric mlfabric
mlfabric_2() { # CELL PAPER BENCH
	row MLfabric-Table-2 $2 - "${1:0:2} ${1:2}: MLfabric-A, delay 30" mlfabric = $1-a30
	row MLfabric-Table-2 $2 $3 "the kit's rounds by rate, one in flight, late batches cut" mlfabric = $1-cut
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
row MLfabric-7.1 1600 - "the ring, ms" mlfabric = ring
row MLfabric-7.1 30 - "updates that MLfabric-A drops, C1 N1, percent" mlfabric = dropped
row MLfabric-7.1 7.6 - "longer when rates are known after 2 s, not 0.2, N2, percent" mlfabric = lag
row MLfabric-7.1 40 - "the same, one port in five at 1 Gbit/s" mlfabric = skewed
row MLfabric-7.1 1.30 1.03 "topics: passes with MLfabric-A, of the ring's" -
row MLfabric-7.1 0.76 1.54 "time with MLfabric-A, of the ring's" -
row MLfabric-7.1 0.13 0.41 "of one server's, each update by itself" -
row MLfabric-7.1 - 0.42 "time with the kit's rounds, of the ring's" -

row MLfabric-7.2 0.84 - "C2 N1: time of an iteration, of the ring's" mlfabric = C2N1-s
row MLfabric-7.2 "1.2 to 2" - "C1 N2, the same" mlfabric = C1N2-s
row MLfabric-7.2 "1.2 to 2" - "C1 N3, the same" mlfabric = C1N3-s
row MLfabric-7.2 0.82 - "C2 N2: its communication, of a tree's" mlfabric = sums
row MLfabric-7.2 4.1 - "messages over slow links, percent" mlfabric = slow-s
row MLfabric-7.2 9.0 - "with a tree" mlfabric = slow-tree

row MLfabric-7.3 6 - "a checkpoint every 30 updates costs, of what replication costs" mlfabric = ckpt30
row MLfabric-7.3 "up to 30" - "chain replication, the same" mlfabric = chain
row MLfabric-7.3 5.6 - "bytes to the replica with a bound of 600, so many times fewer" mlfabric = fewer

row MLfabric-7.4 30 0.27 "a schedule of 100 updates, ms" -
row MLfabric-7.4 440 2.0 "500" -
row MLfabric-7.4 1460 3.1 "1000" -
