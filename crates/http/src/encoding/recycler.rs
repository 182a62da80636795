//! An allocator for brotli's encoder that keeps memory from one body to the next.
//!
//! An encoder allocates a megabyte of tables and frees them at the end of each body. With malloc,
//! the kernel maps, clears and unmaps these pages each time, which costs more than compressing a
//! small body.

use std::cell::RefCell;

use brotli::enc::cluster::HistogramPair;
use brotli::enc::command::Command;
use brotli::enc::entropy_encode::HuffmanTree;
use brotli::enc::histogram::{ContextType, HistogramCommand, HistogramDistance, HistogramLiteral};
use brotli::enc::{BrotliAlloc, PDF, StaticCommand, ZopfliNode, floatX, s16, v8};
use brotli::{Allocator, SliceWrapper, SliceWrapperMut};

/// Smaller blocks are left to malloc.
const KEPT_COUNT_MIN: usize = 1024;

/// How many elements a block may have to be kept: qualities above 9 need more, and are too slow for
/// generated bodies anyway.
const KEPT_COUNT_MAX: usize = 1024 * 1024;

/// How many blocks of one type a thread keeps. An encoder has at most three at a time.
const FREE_LIST_SIZE_MAX: usize = 4;

/// Reuses blocks that were freed on the same thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recycler;

/// A block with the requested number of elements.
#[derive(Debug)]
pub(super) struct Block<T> {
    memory: Box<[T]>,
    count: usize,
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self {
            memory: Box::default(),
            count: 0,
        }
    }
}

impl<T> SliceWrapper<T> for Block<T> {
    fn slice(&self) -> &[T] {
        &self.memory[..self.count]
    }
}

impl<T> SliceWrapperMut<T> for Block<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.memory[..self.count]
    }
}

impl<T: Clone + Default> Block<T> {
    fn take(free_list: &RefCell<Vec<Box<[T]>>>, count: usize) -> Self {
        let mut free_list = free_list.borrow_mut();
        // A much larger block is left for requests that need it.
        let fits = |kept: usize| (count..=4 * count).contains(&kept);
        if let Some(index) = free_list.iter().position(|memory| fits(memory.len())) {
            let mut memory = free_list.swap_remove(index);
            // The encoder expects zeroed tables.
            memory[..count].fill(T::default());
            return Self { memory, count };
        }
        // Sizes follow the body's; rounded up, the next body finds them.
        let kept = if count < KEPT_COUNT_MIN {
            count
        } else {
            count.next_power_of_two()
        };
        Self {
            memory: vec![T::default(); kept].into_boxed_slice(),
            count,
        }
    }

    fn give_back(self, free_list: &RefCell<Vec<Box<[T]>>>) {
        if (KEPT_COUNT_MIN..=KEPT_COUNT_MAX).contains(&self.memory.len()) {
            let mut free_list = free_list.borrow_mut();
            if free_list.len() == FREE_LIST_SIZE_MAX {
                free_list.remove(0);
            }
            free_list.push(self.memory);
        }
    }
}

macro_rules! recycle {
    ($($element:ty),* $(,)?) => {$(
        const _: () = {
            thread_local! {
                static FREE_LIST: RefCell<Vec<Box<[$element]>>> =
                    const { RefCell::new(Vec::new()) };
            }

            impl Allocator<$element> for Recycler {
                type AllocatedMemory = Block<$element>;

                fn alloc_cell(&mut self, count: usize) -> Block<$element> {
                    FREE_LIST.with(|free_list| Block::take(free_list, count))
                }

                fn free_cell(&mut self, block: Block<$element>) {
                    // While a thread ends, its free list may be gone.
                    let _ = FREE_LIST.try_with(|free_list| block.give_back(free_list));
                }
            }
        };
    )*};
}

recycle!(
    u8,
    u16,
    i32,
    u32,
    u64,
    Command,
    floatX,
    v8,
    s16,
    PDF,
    StaticCommand,
    HistogramLiteral,
    HistogramCommand,
    HistogramDistance,
    HistogramPair,
    ContextType,
    HuffmanTree,
    ZopfliNode,
);

impl BrotliAlloc for Recycler {}
