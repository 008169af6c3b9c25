// Meta commands, good and bad, and what must become of them.

private let invalidFlag = "refused: CLIENT_ERROR invalid flag"
private let duplicateFlag = "refused: CLIENT_ERROR duplicate flag"
private let badToken = "refused: CLIENT_ERROR bad token in command line format"
private let badKey = "refused: CLIENT_ERROR error decoding key"
private let tooManyFlags = "refused: CLIENT_ERROR options flags are too long"
private let longOpaque = "refused: CLIENT_ERROR opaque token too long"
private let badArithmetic = "refused: CLIENT_ERROR invalid or duplicate flag"
private let badStoreMode = "refused: CLIENT_ERROR invalid mode for ms M token"
private let badArithmeticMode = "refused: CLIENT_ERROR invalid mode for ma M token"
private let opaque31 = String(repeating: "o", count: 31)

private let getRows: [Row] = [
    ("mn", "meta noOperation"),
    ("mn x y", "meta noOperation"),
    ("mg k", "meta get k"),
    ("mg  k  ", "meta get k"),
    ("mg k v", "meta get k value"),
    ("mg k s v t f c k h l", "meta get k returns=stfckhl value"),
    ("mg k l h k c f t v s Oabc", "meta get k returns=lhkcftsO opaque=abc value"),
    ("mg k O", "meta get k returns=O opaque="),
    ("mg k O\(opaque31)", "meta get k returns=O opaque=\(opaque31)"),
    ("mg k O\(opaque31)o", longOpaque),
    ("mg k q", "meta get k quiet"),
    ("mg k u", "meta get k noBump"),
    ("mg Zm9v b", "meta get Zm9v base64"),
    ("mg Zm9v k b", "meta get Zm9v returns=k base64"),
    ("mg Zm8= b", "meta get Zm8= base64"),
    ("mg Zg== b", "meta get Zg== base64"),
    ("mg Zg= b", badKey),
    ("mg Zm9 b", badKey),
    ("mg Zm9! b", badKey),
    ("mg Z=== b", badKey),
    ("mg ==== b", badKey),
    ("mg Zg==Zg== b", badKey),
    ("mg Zm9v", "meta get Zm9v"),
    ("mg k T0", "meta get k ttl=never"),
    ("mg k T30", "meta get k ttl=after(seconds: 30)"),
    ("mg k T-1", "meta get k ttl=immediately"),
    ("mg k T2592001", "meta get k ttl=at(unixSeconds: 2592001)"),
    ("mg k t T30", "meta get k returns=t ttl=after(seconds: 30)"),
    ("mg k N0", "meta get k vivify=never"),
    ("mg k N30", "meta get k vivify=after(seconds: 30)"),
    ("mg k R30", "meta get k recache=30"),
    ("mg k R-1", "meta get k recache=-1"),
    ("mg k C5", "meta get k compare=5"),
    ("mg k C18446744073709551615", "meta get k compare=18446744073709551615"),
    ("mg k E7", "meta get k newUnique=7"),
    ("mg k F1 J1 D1 I x MX", "meta get k invalidate removeValue flags=1 delta=1 initial=1"),
    ("mg k M", "meta get k"),
    ("mg k P Labc", "meta get k"),
    ("mg k noreply", invalidFlag),
    ("mg \(key250)", "meta get \(key250)"),
    ("mg \(key251)", bad),
    ("mg \(key251) Q", bad),
    ("mg", bad),
    ("mg ", bad),
    ("mg k Q", invalidFlag),
    ("mg k a", invalidFlag),
    ("mg k 5", invalidFlag),
    ("mg k !", bad),
    ("mg k \u{e9}", bad),
    ("mg k s s", duplicateFlag),
    ("mg k sx sy", duplicateFlag),
    ("mg k Oa Ob", duplicateFlag),
    ("mg k T", badToken),
    ("mg k T-", badToken),
    ("mg k T+1", badToken),
    ("mg k T1x", badToken),
    ("mg k T2147483647", "meta get k ttl=at(unixSeconds: 2147483647)"),
    ("mg k T2147483648", badToken),
    ("mg k N2147483648", badToken),
    ("mg k R-2147483649", badToken),
    ("mg k N", badToken),
    ("mg k R", badToken),
    ("mg k C", badToken),
    ("mg k C-1", badToken),
    ("mg k C18446744073709551616", badToken),
    ("mg k E18446744073709551616", badToken),
    ("mg k F4294967295", "meta get k flags=4294967295"),
    ("mg k F4294967296", bad),
    ("mg k F", bad),
    ("mg k D", "refused: CLIENT_ERROR invalid numeric delta value"),
    ("mg k J-1", "refused: CLIENT_ERROR invalid numeric initial value"),
    // The last bad token names the error, an unknown or repeated letter ends the reading.
    ("mg k Tx Dx", "refused: CLIENT_ERROR invalid numeric delta value"),
    ("mg k Tx Fx", badToken),
    ("mg k Tx Q", invalidFlag),
    ("mg k Tx s s", duplicateFlag),
    ("mg k q Tx", badToken),
    // Twenty words and no more.
    ("mg k b c f h k l O q s t u v x I M0 T0 N0 R0", badKey),
    ("mg Zm9v b c f h k l O q s t u v x I M0 T0 N0", longGet + " ttl=never vivify=never quiet"),
    ("mg Zm9v b c f h k l O q s t u v x I M0 T0 N0 R0", longGet + " ttl=never vivify=never recache=0 quiet"),
    ("mg Zm9v b c f h k l O q s t u v x I M0 T0 N0 R0 C0", tooManyFlags),
    ("mg k 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", tooManyFlags),
]

private let longGet =
    "meta get Zm9v returns=cfhklOst opaque= base64 value noBump invalidate removeValue"

private let setRows: [Row] = [
    ("ms k 5", "meta set k bytes=5 set"),
    ("ms k 0", "meta set k bytes=0 set"),
    ("ms k 2147483645", "meta set k bytes=2147483645 set"),
    ("ms k 5 T60 F9 c s k Oq b", badKey + " swallow=7"),
    ("ms a2V5 5 T60 F9 c s k Oq b", longSet),
    ("ms k 5 MS", "meta set k bytes=5 set"),
    ("ms k 5 ME", "meta set k bytes=5 add"),
    ("ms k 5 MR", "meta set k bytes=5 replace"),
    ("ms k 5 MA N60", "meta set k bytes=5 append vivify=after(seconds: 60)"),
    ("ms k 5 MP", "meta set k bytes=5 prepend"),
    ("ms k 5 MEadd", "meta set k bytes=5 add"),
    ("ms k 5 M", badStoreMode + " swallow=7"),
    ("ms k 5 Mset", badStoreMode + " swallow=7"),
    ("ms k 5 Ma", badStoreMode + " swallow=7"),
    ("ms k 5 C7 I E9 q", "meta set k bytes=5 set invalidate compare=7 newUnique=9 quiet"),
    ("ms k 5 v t f h l", "meta set k bytes=5 set value"),
    ("ms k 5 Q", invalidFlag + " swallow=7"),
    ("ms k 5 s s", duplicateFlag + " swallow=7"),
    ("ms k 5 T", badToken + " swallow=7"),
    ("ms k 5 !", bad + " swallow=7"),
    ("ms k 5 O\(opaque31)o", longOpaque + " swallow=7"),
    ("ms k 5 noreply", invalidFlag + " swallow=7"),
    ("ms \(key251) 5", bad + " swallow=7"),
    ("ms k 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", tooManyFlags + " swallow=7"),
    ("ms k -1", bad),
    ("ms k x", bad),
    ("ms k 2147483646", bad),
    ("ms k S5", bad),
    ("ms k", bad),
    ("ms", bad),
]

private let longSet =
    "meta set a2V5 bytes=5 set returns=cskO opaque=q base64 ttl=after(seconds: 60) flags=9"

private let deleteRows: [Row] = [
    ("md k", "meta delete k"),
    ("md k q", "meta delete k quiet"),
    ("md k k Oz c s t f h l v", "meta delete k returns=kO opaque=z value"),
    ("md k C5 I T30 E9", "meta delete k invalidate ttl=after(seconds: 30) compare=5 newUnique=9"),
    ("md k x", "meta delete k removeValue"),
    ("md k Z", invalidFlag),
    ("md \(key251)", bad),
    ("md", bad),
]

private let arithmeticRows: [Row] = [
    ("ma k", "meta arithmetic k incr"),
    ("ma k v t c k Oz q", "meta arithmetic k incr returns=tckO opaque=z value quiet"),
    ("ma k s f h l", "meta arithmetic k incr"),
    ("ma k MI", "meta arithmetic k incr"),
    ("ma k M+", "meta arithmetic k incr"),
    ("ma k MD", "meta arithmetic k decr"),
    ("ma k M-", "meta arithmetic k decr"),
    ("ma k Mdecr", badArithmeticMode),
    ("ma k M", badArithmeticMode),
    ("ma k D10 J100 N60", "meta arithmetic k incr vivify=after(seconds: 60) delta=10 initial=100"),
    ("ma k D18446744073709551615", "meta arithmetic k incr delta=18446744073709551615"),
    ("ma k D18446744073709551616", badArithmetic),
    ("ma k Jx", badArithmetic),
    ("ma k Q", badArithmetic),
    ("ma k v v", badArithmetic),
    ("ma k b", badArithmetic),
    ("ma k O\(opaque31)o", longOpaque),
    ("ma \(key251)", badArithmetic),
    ("ma", bad),
]

private let inspectRows: [Row] = [
    ("me k", "meta inspect k"),
    ("me Zm9v b", "meta inspect Zm9v base64"),
    ("me k b", badKey),
    ("me k x y", "meta inspect k"),
    ("me \(key251)", bad),
    ("me", bad),
]

/// All of them.
let metaRows = getRows + setRows + deleteRows + arithmeticRows + inspectRows
