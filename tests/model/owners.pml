/*
 * A segment of a vector that is summed by shares (lib/fabric/sum_shares.c) as a Spin model, and how
 * it gets another owner within its round: N hosts, which open the round and have their part ready at
 * any time; the first one tells who owns the segment.  An owner that has not asked for anything of
 * it may give it to another host, alone, and so may that one, up to MOVES times in all.  Messages
 * between two hosts keep their order, those of different hosts do not.
 *
 *     spin -search -O2 owners.pml            no error
 *     spin -DFAULT=1 -search -O2 owners.pml  1 to 8: each must find one (tests/model/run)
 *
 * Checked: one host sums it, once, with one share of each host; nothing that comes is taken for
 * something else; when nothing is on its way any more, all have the sum.  Left out: the deaths of
 * rounds, whose messages are told apart by their lives; short pieces, which are sent without being
 * asked for: their segments are not given away.
 */
#ifndef N
#define N 3
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 an offer does not say for which owner
 *  2 an older word on the owner overrides a newer one
 *  3 a segment is given away that was begun
 *  4 an offer for an owner who does not know yet that it is one is not kept
 *  5 who had offered to the old owner does not offer to the new one
 *  6 who opens late is not told
 *  7 what comes before the first host has told who owns what is not kept
 *  8 only the new owner is told
 */

#define Q (4 + 2 * MOVES)
mtype = { opened, plan, move, offer, want, share, sum };
chan q[N * N] = [Q] of { mtype, byte, byte };    /* from * N + to: generation, owner */
chan bulk[N * N] = [2] of { mtype, byte };
chan early[N] = [N * Q] of { byte, mtype, byte, byte };

bool open[N], ready[N], knows[N], met[N * N], begun[N], has[N];
byte gen[N], owner[N], out[N]; /* out: of its share: offered 1, sent 2 */
byte offers[N], shares[N];     /* at an owner */
byte again[N];                 /* so many of those kept are looked at once more */
byte first, moves, sums;
hidden byte f, g, o, k;
hidden mtype m;

inline tell(s, d, what, x, y) { assert(nfull(q[(s) * N + (d)])); q[(s) * N + (d)]!what, x, y }

inline offer_share(h) {
	if
	:: knows[h] && ready[h] && owner[h] != h && out[h] == 0 && met[h * N + owner[h]] ->
		out[h] = 1; tell(h, owner[h], offer, gen[h], 0)
	:: else
	fi
}

inline go_on(h) { /* as its owner */
	if
	:: knows[h] && owner[h] == h && ready[h] && !begun[h] && offers[h] == N - 1 ->
		begun[h] = 1;
		for (k : 0 .. N - 1) { if :: k != h -> tell(h, k, want, gen[h], 0) :: else fi }
	:: knows[h] && owner[h] == h && begun[h] && shares[h] == N - 1 && !has[h] ->
		sums++; has[h] = 1;
		for (k : 0 .. N - 1) { if :: k != h -> bulk[h * N + k]!sum, gen[h] :: else fi }
	:: else
	fi
}

inline keep(h) { early[h]!f, m, g, o }

inline take(me) { /* m, g, o from f */
	if
	:: m == plan ->
		assert(!knows[me]);
		knows[me] = 1; owner[me] = o; again[me] = len(early[me]); offer_share(me)
	:: m != plan && !knows[me] -> if :: FAULT == 7 :: else -> keep(me) fi
	:: m == move && knows[me] ->
		if
		:: g > gen[me] || (FAULT == 2 && g < gen[me]) ->
			assert(owner[me] != me && out[me] != 2);
			gen[me] = g; owner[me] = o; again[me] = len(early[me]);
			if :: FAULT == 5 && out[me] :: else -> out[me] = 0 fi;
			offer_share(me)
		:: else -> assert(g < gen[me] || o == owner[me])
		fi
	:: m == offer && knows[me] ->
		if
		:: g > gen[me] -> if :: FAULT == 4 :: else -> keep(me) fi
		:: g == gen[me] || FAULT == 1 -> assert(owner[me] == me); offers[me]++
		:: else /* for the owner that it was */
		fi
	:: m == want && knows[me] ->
		assert(g == gen[me] && owner[me] == f && out[me] == 1);
		out[me] = 2; bulk[me * N + f]!share, g
	fi;
	go_on(me)
}

proctype Host(byte i) {
end:	do
	:: d_step { !open[i] -> open[i] = 1;
		if :: i == 0 -> knows[0] = 1; owner[0] = first :: else fi;
		for (k : 0 .. N - 1) { if :: k != i -> tell(i, k, opened, 0, 0) :: else fi } }
	:: d_step { open[i] && !ready[i] -> ready[i] = 1; offer_share(i); go_on(i) }
	:: d_step { again[i] -> again[i]--; early[i]?f, m, g, o; take(i) }
	od
}

/* What comes to i from j, and what i gives to j. */
proctype Link(byte i; byte j) {
end:	do
	:: d_step { open[i] && q[j * N + i]?[opened, _, _] -> q[j * N + i]?opened, _, _;
		met[i * N + j] = 1;
		if :: i == 0 -> tell(0, j, plan, 0, first) :: else fi;
		if :: knows[i] && gen[i] && FAULT != 6 -> tell(i, j, move, gen[i], owner[i]) :: else fi;
		if :: owner[i] == j -> offer_share(i) :: else fi }
	:: d_step { open[i] && nempty(q[j * N + i]) && !q[j * N + i]?[opened, _, _] ->
		f = j; q[j * N + i]?m, g, o; take(i) }
	:: d_step { bulk[j * N + i]?[share, _] -> bulk[j * N + i]?share, g;
		assert(owner[i] == i && g == gen[i] && begun[i]); shares[i]++; go_on(i) }
	:: d_step { bulk[j * N + i]?[sum, _] -> bulk[j * N + i]?sum, g;
		assert(owner[i] == j && g == gen[i] && !has[i] && out[i] == 2); has[i] = 1 }
	:: d_step { knows[i] && owner[i] == i && (!begun[i] || FAULT == 3) && !has[i] && moves < MOVES ->
		moves++; gen[i]++; owner[i] = j; out[i] = 0; offers[i] = 0;
		for (k : 0 .. N - 1) {
			if
			:: met[i * N + k] && (FAULT != 8 || k == j) -> tell(i, k, move, gen[i], j)
			:: else
			fi
		};
		offer_share(i) }
	od
}

init {
	byte a, b;
	atomic {
		select(first : 0 .. N - 1);
		for (a : 0 .. N - 1) {
			run Host(a);
			for (b : 0 .. N - 1) { if :: a != b -> run Link(a, b) :: else fi }
		}
	}
	timeout;
	assert(sums == 1);
	for (a : 0 .. N - 1) { assert(has[a]) }
}
