source_filename = "pair.c"
target triple = "x86_64-pc-linux-gnu"

%pair = type { i64, [7 x i64], i64 }

@pair = external global %pair

define i32 @set(i64 %value) {
  store i64 %value, ptr @pair
  call void asm sideeffect "clwb $0", "*m,~{memory}"(ptr elementtype(i64) @pair)
  call void @llvm.x86.sse.sfence()
  %flag = getelementptr %pair, ptr @pair, i32 0, i32 2
  %old = atomicrmw xchg ptr %flag, i64 1 seq_cst
  switch i64 %old, label %other [ i64 0, label %first ]
first:
  ret i32 0
other:
  %all = phi i32 [ 1, %0 ]
  ret i32 %all
}

declare void @llvm.x86.sse.sfence()
