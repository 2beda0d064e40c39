//! Columns of Parquet and the types of properties: which becomes which.

use crate::columnar::moment::Unit;
use crate::edm::EdmType;
use parquet::basic::{
    ConvertedType, IntType, LogicalType, Repetition, TimeUnit, TimestampType, Type as Physical,
};
use parquet::schema::types::Type;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Boolean
    Boolean,
    /// Int32
    Int32,
    /// 32 bits without a sign: Int64
    Unsigned32,
    /// Days since 1970: DateTime
    Date,
    /// Int64
    Int64,
    /// A count since 1970: DateTime
    Moment(Unit),
    /// A Julian day and nanoseconds, as older programs write them: DateTime
    Julian,
    /// 32 bits: Double, which holds each of them
    Single,
    /// Double
    Double,
    /// UTF-8: String
    Text,
    /// Binary
    Binary,
    /// Of one length for all values: Binary
    Fixed,
    /// 16 bytes: Guid
    Guid,
}

impl Kind {
    /// What a field of the file is, or why no property holds it.
    pub(crate) fn of(field: &Type) -> Result<Kind, String> {
        if !field.is_primitive() {
            return Err("a list, a map or a struct".to_owned());
        }
        let info = field.get_basic_info();
        if info.has_repetition() && info.repetition() == Repetition::REPEATED {
            return Err("a list".to_owned());
        }
        let physical = field.get_physical_type();
        let logical = logical(info.logical_type_ref(), info.converted_type());
        let length = fixed_length(field);
        let kind = match (physical, &logical) {
            (Physical::BOOLEAN, None) => Kind::Boolean,
            (Physical::INT32, None) => Kind::Int32,
            (Physical::INT32, Some(LogicalType::Integer(IntType { bit_width, is_signed }))) => {
                if *is_signed || *bit_width < 32 {
                    Kind::Int32
                } else {
                    Kind::Unsigned32
                }
            }
            (Physical::INT32, Some(LogicalType::Date)) => Kind::Date,
            (Physical::INT64, None) => Kind::Int64,
            (Physical::INT64, Some(LogicalType::Integer(IntType { is_signed: true, .. }))) => {
                Kind::Int64
            }
            (Physical::INT64, Some(LogicalType::Timestamp(TimestampType { unit, .. }))) => {
                Kind::Moment(unit_of(unit))
            }
            (Physical::INT96, None) => Kind::Julian,
            (Physical::FLOAT, None) => Kind::Single,
            (Physical::DOUBLE, None) => Kind::Double,
            (Physical::BYTE_ARRAY, None) => Kind::Binary,
            (
                Physical::BYTE_ARRAY,
                Some(LogicalType::String | LogicalType::Enum | LogicalType::Json),
            ) => Kind::Text,
            (Physical::FIXED_LEN_BYTE_ARRAY, None) => Kind::Fixed,
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)) if length == 16 => Kind::Guid,
            (physical, logical) => {
                let logical = logical.as_ref().map(|logical| format!(" as {logical:?}"));
                return Err(format!("{physical}{}", logical.unwrap_or_default()));
            }
        };
        Ok(kind)
    }

    /// The type of property that its values become.
    pub(crate) fn edm(self) -> EdmType {
        match self {
            Kind::Boolean => EdmType::Boolean,
            Kind::Int32 => EdmType::Int32,
            Kind::Unsigned32 | Kind::Int64 => EdmType::Int64,
            Kind::Date | Kind::Moment(_) | Kind::Julian => EdmType::DateTime,
            Kind::Single | Kind::Double => EdmType::Double,
            Kind::Text => EdmType::String,
            Kind::Binary | Kind::Fixed => EdmType::Binary,
            Kind::Guid => EdmType::Guid,
        }
    }
}

fn fixed_length(field: &Type) -> i32 {
    match field {
        Type::PrimitiveType { type_length, .. } => *type_length,
        Type::GroupType { .. } => 0,
    }
}

/// The logical type, also where an older program has written only the converted one.
fn logical(logical: Option<&LogicalType>, converted: ConvertedType) -> Option<LogicalType> {
    let moment = |unit| LogicalType::Timestamp(TimestampType { is_adjusted_to_u_t_c: true, unit });
    let integer = LogicalType::integer;
    if let Some(logical) = logical {
        return Some(logical.clone());
    }
    Some(match converted {
        ConvertedType::NONE => return None,
        ConvertedType::UTF8 => LogicalType::String,
        ConvertedType::ENUM => LogicalType::Enum,
        ConvertedType::JSON => LogicalType::Json,
        ConvertedType::BSON => LogicalType::Bson,
        ConvertedType::DATE => LogicalType::Date,
        ConvertedType::TIMESTAMP_MILLIS => moment(TimeUnit::MILLIS),
        ConvertedType::TIMESTAMP_MICROS => moment(TimeUnit::MICROS),
        ConvertedType::INT_8 => integer(8, true),
        ConvertedType::INT_16 => integer(16, true),
        ConvertedType::INT_32 => integer(32, true),
        ConvertedType::INT_64 => integer(64, true),
        ConvertedType::UINT_8 => integer(8, false),
        ConvertedType::UINT_16 => integer(16, false),
        ConvertedType::UINT_32 => integer(32, false),
        ConvertedType::UINT_64 => integer(64, false),
        // Times of day, decimals, intervals: no property holds them, and none is called so.
        _ => LogicalType::Unknown,
    })
}

fn unit_of(unit: &TimeUnit) -> Unit {
    match unit {
        TimeUnit::MILLIS => Unit::Millis,
        TimeUnit::MICROS => Unit::Micros,
        TimeUnit::NANOS => Unit::Nanos,
    }
}
