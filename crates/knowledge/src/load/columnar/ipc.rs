//! The batches of an Arrow file or stream.
//!
//! The messages are framed and checked here and decoded by `arrow-ipc`: its own readers allocate the
//! size that a compressed buffer says it has, and a failed allocation ends the process.
//!
//! ```text
//! stream   message* end
//! message  0xffffffff, size of the metadata (4 bytes), metadata (flatbuffer), body
//! end      0xffffffff, 0 (4 bytes)
//! file     "ARROW1\0\0", stream, footer (flatbuffer), size of the footer (4 bytes), "ARROW1"
//! ```
//!
//! Messages of versions before 0.15 have no 0xffffffff; they are read in files, not in streams. See
//! <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

use std::sync::Arc;
use std::vec;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::Damage;
use super::input::Input;

/// The first bytes of a file, and its last ones.
const MAGIC: &[u8] = b"ARROW1";

/// The first bytes of a file of Feather's first version, which is another format.
const FEATHER_1_MAGIC: &[u8] = b"FEA1";

/// Begins each message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The size of that and of the size of the metadata.
const PREFIX_SIZE: u64 = 8;

/// The size limit of a footer and of the metadata of a message in bytes; those of a thousand columns
/// have some 100 KiB.
const METADATA_SIZE_MAX: u64 = 256 << 20;

/// The size limit of a batch in bytes, compressed and decompressed; it is kept in memory as a whole.
const BATCH_SIZE_MAX: u64 = 4 << 30;

/// The most values of a column of a batch, which is the range of the offsets.
const BATCH_ROW_COUNT_MAX: i64 = i32::MAX as i64;

/// A reader of batches.
pub(super) struct ArrowBatches {
    input: Input,
    schema: SchemaRef,
    decoder: FileDecoder,
    messages: Messages,
    /// The number of the last batch, counted from 1.
    number: u64,
}

/// Where the messages are.
enum Messages {
    /// The record batches that the footer of a file names.
    File(vec::IntoIter<Block>),
    /// The rest of a stream.
    Stream { offset: u64 },
}

/// A message and its place.
struct Framed {
    block: Block,
    bytes: Bytes,
    end: u64,
}

impl ArrowBatches {
    /// Opens a file or a stream.
    pub(super) fn open(input: Input) -> Result<Self, Damage> {
        let head = input.bytes_at(0, input.size().min(MAGIC.len() as u64))?;
        if head.starts_with(FEATHER_1_MAGIC) {
            return Err(Damage::broken(
                "this is Feather of version 1; write version 2, which is Arrow",
            ));
        }
        match head.starts_with(MAGIC) {
            true => Self::open_file(input),
            false => Self::open_stream(input),
        }
    }

    fn open_file(input: Input) -> Result<Self, Damage> {
        let tail_size = 4 + MAGIC.len() as u64;
        let tail_offset = input.size().saturating_sub(tail_size);
        let tail = input.bytes_at(tail_offset, tail_size)?;
        let (size, magic) = tail.split_at(4);
        if magic != MAGIC {
            return Err(Damage::broken("it does not end as an Arrow file does"));
        }
        let size = i32::from_le_bytes(size.try_into().expect("4 bytes"));
        let size = u64::try_from(size).map_err(|_| Damage::broken("a negative size"))?;
        check_metadata_size(size)?;
        let offset = tail_offset.checked_sub(size);
        let offset = offset.ok_or_else(|| Damage::broken("the footer is larger than the file"))?;
        let footer = input.bytes_at(offset, size)?;
        let footer = root_as_footer(&footer).map_err(Damage::broken)?;
        let schema = footer.schema();
        let schema = schema.ok_or_else(|| Damage::broken("the footer has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Damage::broken("its numbers are in another byte order"));
        }
        let schema = Arc::new(try_fb_to_schema(schema).map_err(Damage::broken)?);
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        for block in footer.dictionaries().iter().flatten() {
            let framed = framed(&input, block)?;
            check(&framed)?;
            decoder
                .read_dictionary(&framed.block, &framed.bytes.into())
                .map_err(|error| Damage::broken(error).at("a dictionary"))?;
        }
        let blocks: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        Ok(Self {
            input,
            schema,
            decoder,
            messages: Messages::File(blocks.into_iter()),
            number: 0,
        })
    }

    fn open_stream(input: Input) -> Result<Self, Damage> {
        let head = input.bytes_at(0, input.size().min(CONTINUATION.len() as u64))?;
        if head != CONTINUATION[..] {
            return Err(Damage::broken(
                "it begins neither as a file nor as a stream of Arrow",
            ));
        }
        let Some(framed) = next_framed(&input, 0)? else {
            return Err(Damage::broken("it has no schema"));
        };
        let message = message_of(&framed)?;
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| Damage::broken("it does not begin with a schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Damage::broken("its numbers are in another byte order"));
        }
        let schema = Arc::new(try_fb_to_schema(schema).map_err(Damage::broken)?);
        Ok(Self {
            decoder: FileDecoder::new(Arc::clone(&schema), message.version()),
            schema,
            messages: Messages::Stream { offset: framed.end },
            input,
            number: 0,
        })
    }

    /// All columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decodes only these columns from now on.
    pub(super) fn project(mut self, columns: &[usize]) -> Self {
        self.decoder = self.decoder.with_projection(columns.to_vec());
        self
    }

    /// Reads the next batch.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Damage> {
        self.number += 1;
        let place = format!("batch {}", self.number);
        self.read().map_err(|damage| damage.at(&place))
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, Damage> {
        loop {
            let framed = match &mut self.messages {
                Messages::File(blocks) => match blocks.next() {
                    Some(block) => framed(&self.input, &block)?,
                    None => return Ok(None),
                },
                Messages::Stream { offset } => match next_framed(&self.input, *offset)? {
                    Some(framed) => {
                        *offset = framed.end;
                        framed
                    }
                    None => return Ok(None),
                },
            };
            let kind = check(&framed)?;
            let bytes = Buffer::from(framed.bytes);
            if kind == MessageHeader::DictionaryBatch {
                self.decoder
                    .read_dictionary(&framed.block, &bytes)
                    .map_err(Damage::broken)?;
                continue;
            }
            let batch = self.decoder.read_record_batch(&framed.block, &bytes);
            return batch.map_err(Damage::broken);
        }
    }

    /// How much was read, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        match &self.messages {
            Messages::File(rest) => {
                let read = self.number as f64;
                read / (read + rest.len() as f64).max(1.0)
            }
            Messages::Stream { offset } => *offset as f64 / self.input.size().max(1) as f64,
        }
    }
}

fn check_metadata_size(size: u64) -> Result<(), Damage> {
    match size > METADATA_SIZE_MAX {
        true => Err(Damage::Limit(format!(
            "the metadata has more than {METADATA_SIZE_MAX} bytes"
        ))),
        false => Ok(()),
    }
}

/// The message at a block of a file.
fn framed(input: &Input, block: &Block) -> Result<Framed, Damage> {
    let size = |size: i64| u64::try_from(size).map_err(|_| Damage::broken("a negative size"));
    let offset = size(block.offset())?;
    let metadata_size = size(block.metaDataLength().into())?;
    let body_size = size(block.bodyLength())?;
    read_framed(input, offset, metadata_size, body_size)
}

/// The message at an offset of a stream, if it is not the end.
fn next_framed(input: &Input, offset: u64) -> Result<Option<Framed>, Damage> {
    let prefix = input.bytes_at(offset, PREFIX_SIZE)?;
    let (continuation, size) = prefix.split_at(CONTINUATION.len());
    if continuation != CONTINUATION {
        return Err(Damage::broken(
            "a message does not begin where the last one ends",
        ));
    }
    let size = i32::from_le_bytes(size.try_into().expect("4 bytes"));
    if size == 0 {
        return Ok(None);
    }
    let size = u64::try_from(size).map_err(|_| Damage::broken("a negative size"))?;
    check_metadata_size(size)?;
    let metadata = input.bytes_at(offset + PREFIX_SIZE, size)?;
    let message = root_as_message(&metadata).map_err(Damage::broken)?;
    let body_size = u64::try_from(message.bodyLength());
    let body_size = body_size.map_err(|_| Damage::broken("a negative size"))?;
    read_framed(input, offset, PREFIX_SIZE + size, body_size).map(Some)
}

fn read_framed(
    input: &Input,
    offset: u64,
    metadata_size: u64,
    body_size: u64,
) -> Result<Framed, Damage> {
    check_metadata_size(metadata_size)?;
    check_batch_size(body_size)?;
    // The decoder reads the prefix without looking for its end.
    if metadata_size < PREFIX_SIZE {
        return Err(Damage::broken("a message without metadata"));
    }
    let size = metadata_size + body_size;
    let bytes = input.bytes_at(offset, size)?;
    Ok(Framed {
        block: Block::new(offset as i64, metadata_size as i32, body_size as i64),
        bytes,
        end: offset + size,
    })
}

fn check_batch_size(size: u64) -> Result<(), Damage> {
    match size > BATCH_SIZE_MAX {
        true => Err(Damage::Limit(format!(
            "the batch has more than {BATCH_SIZE_MAX} bytes; write batches of fewer rows"
        ))),
        false => Ok(()),
    }
}

/// The metadata of a message.
fn message_of(framed: &Framed) -> Result<Message<'_>, Damage> {
    let metadata_size = framed.block.metaDataLength() as usize;
    let prefix_size = if framed.bytes.starts_with(&CONTINUATION) {
        8
    } else {
        4
    };
    root_as_message(&framed.bytes[prefix_size..metadata_size]).map_err(Damage::broken)
}

/// Checks the sizes in a message of values, and returns its kind.
fn check(framed: &Framed) -> Result<MessageHeader, Damage> {
    let message = message_of(framed)?;
    let kind = message.header_type();
    let batch = match kind {
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            dictionary.and_then(|dictionary| dictionary.data())
        }
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        _ => None,
    };
    let Some(batch) = batch else {
        return Err(Damage::broken("a message that is not a batch of values"));
    };
    let is_count = |count: i64| (0..=BATCH_ROW_COUNT_MAX).contains(&count);
    let mut nodes = batch.nodes().into_iter().flatten();
    if !is_count(batch.length()) || !nodes.all(|node| is_count(node.length())) {
        return Err(Damage::Limit(format!(
            "a column has more than {BATCH_ROW_COUNT_MAX} values; write batches of fewer rows"
        )));
    }
    let body = &framed.bytes[framed.block.metaDataLength() as usize..];
    let mut decompressed_size = 0_u64;
    for buffer in batch.buffers().iter().flatten() {
        let range = usize::try_from(buffer.offset())
            .and_then(|offset| Ok(offset..offset.saturating_add(buffer.length().try_into()?)));
        let bytes = range.ok().and_then(|range| body.get(range));
        let bytes = bytes.ok_or_else(|| Damage::broken("a buffer is not within its message"))?;
        if batch.compression().is_some()
            && let Some(size) = bytes.first_chunk()
        {
            // -1: the buffer is not compressed.
            let size = u64::try_from(i64::from_le_bytes(*size)).unwrap_or(0);
            decompressed_size = decompressed_size.saturating_add(size);
        }
    }
    check_batch_size(decompressed_size)?;
    Ok(kind)
}
