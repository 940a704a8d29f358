// Pass registration, which LLVM's C interface does not reach. No logic lives here.

#include "llvm-c/Types.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"

using namespace llvm;

// Implemented in Rust.
extern "C" void crashproof_prepare_module(LLVMModuleRef, bool unoptimized);
extern "C" void crashproof_instrument_module(LLVMModuleRef);

namespace {

struct PreparePass : PassInfoMixin<PreparePass> {
  bool Unoptimized;
  explicit PreparePass(bool Unoptimized) : Unoptimized(Unoptimized) {}
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    crashproof_prepare_module(wrap(&M), Unoptimized);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

struct InstrumentPass : PassInfoMixin<InstrumentPass> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    // Both are idempotent, so a pipeline without a start (link-time optimization) is covered too.
    crashproof_prepare_module(wrap(&M), false);
    crashproof_instrument_module(wrap(&M));
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

void registerCallbacks(PassBuilder &PB) {
  PB.registerPipelineStartEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel Level) {
        MPM.addPass(PreparePass(Level == OptimizationLevel::O0));
      });
  PB.registerOptimizerLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase Phase) {
        // Before a link-time phase the optimizer is not done yet.
        if (Phase != ThinOrFullLTOPhase::ThinLTOPreLink && Phase != ThinOrFullLTOPhase::FullLTOPreLink)
          MPM.addPass(InstrumentPass());
      });
  PB.registerFullLinkTimeOptimizationLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(InstrumentPass()); });
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "crashproof-prepare")
          MPM.addPass(PreparePass(true));
        else if (Name == "crashproof")
          MPM.addPass(InstrumentPass());
        else
          return false;
        return true;
      });
}

} // namespace

extern "C" void cp_register_callbacks(void *PB) { registerCallbacks(*static_cast<PassBuilder *>(PB)); }
